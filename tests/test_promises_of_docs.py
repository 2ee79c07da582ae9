"""Sentences on which a user relies, each with the test that fails when the sentence is false.

A line of promises_of_docs.txt is a page, a part of a sentence in it, or the test as file::function.

A sentence that changes, or a test that goes, fails here: change both, or drop the sentence.
"""

import ast
import re
from configparser import ConfigParser
from importlib.metadata import requires
from pathlib import Path

import pytest

import bcrf
import spacy_bcrf

ROOT = Path(__file__).resolve().parents[1]
FILES = [x for y in (bcrf, spacy_bcrf) for x in Path(y.__file__).parent.rglob("*.py")]
pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").is_dir(), reason="the pages are in the source tree, not in the package"
)
IMPORTS = (ast.Import, ast.ImportFrom)
CLIENTS = {
    "socket",
    "ssl",
    "http.client",
    "urllib",
    "urllib.request",
    "requests",
    "httpx",
    "aiohttp",
}
NO_CODE = {"eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "torch.load"}
PROMISES = Path(__file__).with_name("promises_of_docs.txt").read_text("utf8")


def read_promises():
    """Yield page, part of a sentence, and the test as file::function."""
    page = sentence = ""
    for line in PROMISES.splitlines():
        if not line.startswith(" "):
            page = line
        elif not line.startswith("    "):
            sentence = line.strip()
        else:
            yield page, sentence, line.strip()


@pytest.mark.parametrize("page, sentence, guard", read_promises())
def test_each_promise_has_a_test(page, sentence, guard):
    text = " ".join((ROOT / page).read_text("utf8").split())
    assert sentence in text, f"{page} no longer says: {sentence}. Does {guard} guard another one?"
    file, name = guard.split("::")
    content = (ROOT / "tests" / file).read_text("utf8")
    assert re.search(rf"def {name}\b", content), f"{guard} is gone: {page} says: {sentence}"


def test_the_package_runs_no_data_as_code():
    for file in FILES:
        tree = ast.parse(file.read_text("utf8"))
        called = {ast.unparse(x.func) for x in ast.walk(tree) if isinstance(x, ast.Call)}
        assert not called & NO_CODE, file


def test_the_package_opens_no_connection():
    for file in FILES:
        imports = [x for x in ast.walk(ast.parse(file.read_text("utf8"))) if type(x) in IMPORTS]
        names = {getattr(x, "module", None) or x.names[0].name for x in imports}
        assert not names & CLIENTS, file


def test_the_base_install_needs_spacy():
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    needed = re.findall(r"^[\w-]+", setup["options"]["install_requires"], re.MULTILINE)
    of_spacy = {re.split(r"\W", name)[0] for name in requires("spacy") or ()}
    assert needed[0] == "spacy" and set(needed[1:]) <= of_spacy


def test_the_javascript_opens_no_connection():
    files = [*ROOT.glob("js/src/*.js"), *ROOT.glob("js/worker.js")]
    assert files
    for file in files:
        found = re.findall(
            r"\bfetch\(|XMLHttp|WebSocket|EventSource|sendBeacon", file.read_text("utf8")
        )
        assert not found, file


def test_the_clinical_pipeline_reads_no_test_part():
    folder = ROOT / "models/es_bcrf_clinical"
    texts = [path.read_text("utf8") for path in (folder / "project.yml", folder / "convert.py")]
    assert all("meddocan" in text or "MEDDOCAN" in text for text in texts)
    assert not any(re.search(r"\btest\b", text) for text in texts)
