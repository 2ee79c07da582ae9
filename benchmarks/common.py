"""Timing, corpora, machine and table that the benchmarks share."""

import argparse
import json
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
import wasabi
from numpy.typing import NDArray

from bcrf.chain import Potentials
from bcrf.io.atomic import write_text
from bcrf.io.text import find_file, read_lines
from experiments.corpora import add_corpora_option
from experiments.report import write_csv
from experiments.training import use_one_thread
from spacy_bcrf.corpora.formats.conllu import read_conllu

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(os.environ.get("BCRF_RESULTS") or ROOT / "benchmarks/results")
EWT = Path("ud-english-ewt/en_ewt-ud-train.conllu")
SAMPLE = ROOT / "assets/sample/train.conllu"

Result = TypeVar("Result")
Name = TypeVar("Name", bound=Hashable)
Row = Mapping[str, object]
"""One row of a table: cells by column name."""

NETWORK = {
    "@architectures": "spacy-bcrf.SequenceLabeler.v1",
    "tok2vec": {
        "@architectures": "spacy-bcrf.HashEmbedCNN.v1",
        "pretrained_vectors": None,
        "width": 96,
        "depth": 4,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
    },
    "head": {"@layers": "spacy-bcrf.BCRF.v1"},
}
"""spaCy's default CNN with a Bregman CRF: the network of taggers, recognizers and chunkers."""


def add_options(parser: argparse.ArgumentParser, needs_corpora: bool = False) -> None:
    """Add the options of all benchmarks that read corpora and print a table."""
    add_corpora_option(parser, needs_corpora)
    add_csv_option(parser)


def add_csv_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of `print_table`."""
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table as CSV")


MIN_SECONDS = 0.005
"""Minimum time of one measurement."""


def interleave(
    contenders: Mapping[Name, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, float]:
    """Return the median seconds of each contender, see `time_rounds`."""
    seconds = time_rounds(contenders, rounds, clock)
    return {name: median(times) for name, times in seconds.items()}


def time_rounds(
    contenders: Mapping[Name, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, list[float]]:
    """Return the seconds of each contender in rounds A B C A B C ...

    Other load on the machine thus slows all contenders alike. Warm-up calls come first and do not
    count. A measurement repeats a short call until it takes MIN_SECONDS, because the other
    contenders leave the caches cold for its first call.
    """
    calls = {name: count_calls(run) for name, run in contenders.items()}
    seconds: dict[Name, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            for _ in range(calls[name]):
                run()
            seconds[name].append((clock() - start) / calls[name])
    return seconds


def clock_of(threads: int) -> Callable[[], float]:
    """Return the clock of a benchmark: processor time, which other load changes less, or wall time.

    Processor time adds up threads, so it measures one thread only.
    """
    return time.process_time if threads == 1 else time.perf_counter


def count_calls(run: Callable[[], object]) -> int:
    """Return the number of calls that take MIN_SECONDS, after one that may load or compile."""
    run()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        if time.perf_counter() - start >= MIN_SECONDS:
            return calls
        calls *= 2


def in_own_process(run: Callable[..., Result], *args: object) -> Result:
    """Call `run` in a fresh process whose numerical libraries use one thread."""
    use_one_thread()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, *args).result()


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux ru_maxrss includes the memory of the parent process.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def sentence_lengths(corpora: Path | None) -> tuple[NDArray[np.int32], str]:
    """Return the lengths of English sentences, and a description of their source."""
    path = find_file(corpora / EWT) if corpora else SAMPLE
    lengths = [len(sentence.words) for sentence in read_conllu(read_lines(path))]
    source = "UD English EWT, train" if corpora else "the sample corpus (no --corpora given)"
    return np.array(lengths, dtype="int32"), f"sentence lengths of {source}"


def random_potentials(
    n_tags: int,
    lengths: NDArray[np.int32],
    rng: np.random.Generator,
    unary_scale: float = 2.0,
    transition_scale: float = 1.0,
) -> Potentials:
    """Draw normal potentials in float32 with shared transitions; scales: standard deviations."""
    unary = rng.standard_normal((int(lengths.sum()), n_tags), dtype="float32")
    transitions = rng.standard_normal((n_tags, n_tags), dtype="float32")
    return Potentials(unary_scale * unary, transition_scale * transitions, lengths)


def describe_machine(packages: Sequence[str]) -> str:
    """Name the processor, cores, load and versions, in two lines."""
    named = [f"spacy-bcrf {version('spacy-bcrf')}", *map(_name_version, packages)]
    return (
        f"{_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
        f"Python {platform.python_version()}, {', '.join(named)}"
    )


def _name_version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def start_chromium(*arguments: str) -> Any:
    """Start a headless Chromium, a context manager of Selenium.

    Needs the extra `browser` and Debian's packages chromium and chromium-driver.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", *arguments):
        options.add_argument(argument)
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def print_table(title: str, rows: Sequence[Row], notes: str, csv_path: Path | None = None) -> None:
    """Print a table with the columns of the first row, and add it to the results of the benchmark.

    csv_path: of the same table as CSV, None for none.
    """
    columns = list(rows[0])
    cells = [[str(row[column]) for column in columns] for row in rows]
    print(f"{title}\n{notes}")
    aligns: list[Any] = ["l", *["r"] * (len(columns) - 1)]
    print(wasabi.table(cells, header=columns, divider=True, aligns=aligns))
    sys.stdout.flush()
    write_results(title, notes, columns, cells)
    if csv_path:
        write_csv(csv_path, [columns, *cells])


_tables: list[dict[str, Any]] = []


def write_results(
    title: str, notes: str, columns: Sequence[str], cells: Sequence[Sequence[str]]
) -> None:
    """Write all tables of this process to RESULTS, as `benchmarks.pages` reads them.

    Only a benchmark that runs as a module writes: a test that calls its functions does not. The
    notes start with the two lines of `describe_machine`, or have none of them.
    """
    script = Path(sys.argv[0])
    if script.parent.name not in ("benchmarks", "experiments"):
        return
    machine = describe_machine([])
    lines = [line for line in notes.splitlines() if not line.startswith((_processor(), "Python "))]
    _tables.append(
        {"title": title, "notes": "; ".join(lines), "columns": list(columns), "rows": list(cells)}
    )
    arguments = [
        "DIR" if before in ("--corpora", "--against") else word
        for before, word in zip(["", *sys.argv[1:]], sys.argv[1:], strict=False)
    ]
    found = {
        "name": script.stem,
        "command": shlex.join(["python", "-m", f"{script.parent.name}.{script.stem}", *arguments]),
        "commit": find_commit(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine.replace("\n", "; "),
        "tables": _tables,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    write_text(RESULTS / f"{script.stem}.json", f"{text}\n")


def find_commit() -> str:
    """Return the commit of the clone, with "+" if files differ from it; "unknown" without git."""
    git = ["git", "-C", str(ROOT)]
    head = [*git, "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(head, capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "spacy_bcrf"])
    except OSError:
        return "unknown"
    if commit.returncode:
        return "unknown"
    return f"{commit.stdout.strip()}{'+' if changed.returncode else ''}"
