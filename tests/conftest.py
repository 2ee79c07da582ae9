"""Fixtures and settings of all tests."""

import os
import shutil
import sys

# Each worker of pytest-xdist has a core or less. More threads of BLAS only wait for one another.
# The libraries read the variable when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import on_gpu
import pytest
from hypothesis import HealthCheck, settings

# Load on a shared machine, not the code, decides how long one example takes.
# Inherited test suites run one property with several executors. The seed decides how many examples
# a property filters out.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.filter_too_much],
)
# `make engine` repeats tests in another environment, where what they import may fail, not the sums.
settings.register_profile("few", settings.get_profile("default"), max_examples=3)
settings.load_profile("default")


def pytest_sessionstart() -> None:
    """Start the server of forked commands, before a test starts one that imports less."""
    if sys.platform == "linux" and "PYTEST_XDIST_WORKER" in os.environ:
        from forked_commands import start_server

        start_server()


LONG = ["kernels/test_headers", "cli/test_annotate_killed", "test_project", "kernels/test_cuda"]
LONG += ["pipeline/test_spacy_cli", "kernels/test_instruction_sets"]
LONG += ["test_docs", "corpora/test_published_counts", "pipeline/test_transformers"]
LONG += ["test_release", "attack/test_memory", "attack/test_clients", "interfaces/test_torch"]
LONG += ["benchmarks/test_gpu_report", "pipeline/test_without_kernels", "cli/test_tune_cli"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, then those with most tests, so that all workers end together."""
    tests = Path(__file__).parent
    first = {tests / f"{name}.py": i for i, name in enumerate(LONG)}
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (first.get(item.path, len(first)), -sizes[item.path]))


def pytest_collection_finish() -> None:
    """Make the pipelines of tests light, if a test has imported spaCy."""
    if "spacy" in sys.modules:
        from light_spacy import make_light

        make_light()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests in the file BCRF_SKIPPED, which `make skipped` reads."""
    if "BCRF_SKIPPED" in os.environ:
        names = {report.nodeid for report in terminalreporter.stats.get("skipped", [])}
        text = "".join(f"{name}\n" for name in sorted(names))
        Path(os.environ["BCRF_SKIPPED"]).write_text(text, encoding="utf8")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora. Without one, tests that need it are skipped."""
    if "BCRF_CORPORA" not in os.environ:
        pytest.skip("BCRF_CORPORA, the folder of real corpora, is not set")
    return Path(os.environ["BCRF_CORPORA"])


# Without a GPU all tests run on the CPU only. tests/chain/test_gpu.py reports why, as one skip.
PROCESSORS = ["cpu"] if on_gpu.why_not() else ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(scope="module", params=PROCESSORS)
def processor(request: pytest.FixtureRequest) -> Iterator[str]:
    """The processor that runs the kernels of the test."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "gpu":
            on_gpu.replace_compiled_kernels(patch)
        yield request.param


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `head` and `any_head` by the attributes `some_heads` and `heads` of the class."""
    for fixture, attribute in (("head", "some_heads"), ("any_head", "heads")):
        if fixture in metafunc.fixturenames and hasattr(metafunc.cls, attribute):
            metafunc.parametrize(fixture, getattr(metafunc.cls, attribute))


@pytest.fixture
def driver(chromium):
    """A headless Chromium with a window of its own size, and an empty log."""
    yield chromium
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.get_log("browser")


@pytest.fixture(scope="module")
def chromium():
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the extra browser")
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not (binary and chromedriver):
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    yield driver
    driver.quit()
