"""What the benchmarks share: fair timing, sentence lengths, the machine, one table."""

import argparse
import csv
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.io.text import read_lines

ROOT = Path(__file__).resolve().parent.parent
EWT = Path("ud-english-ewt/en_ewt-ud-train.conllu.xz")
SAMPLE = ROOT / "assets/sample/train.conllu"

Result = TypeVar("Result")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of all benchmarks that need corpora and print a table."""
    corpora = os.environ.get("BCRF_CORPORA")
    parser.add_argument(
        "--corpora",
        type=Path,
        default=Path(corpora) if corpora else None,
        metavar="DIR",
        help="folder of the development corpora (default: the environment's BCRF_CORPORA)",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV too")


SHORT = 0.005
"""Seconds that a timed run takes at least."""


def interleave(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each contender, over rounds A B C A B C ..., after calls that do not count.

    What else happens on the machine thus hits all alike. It can only add to the time of the same
    work, so the fastest round is what the work takes. In a round each runs as often as fills some
    milliseconds: a short call would otherwise be timed with what the others left in the caches.
    """
    times = {name: how_often(run) for name, run in contenders.items()}
    seconds = dict.fromkeys(contenders, math.inf)
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            for _ in range(times[name]):
                run()
            took = (time.perf_counter() - start) / times[name]
            seconds[name] = min(seconds[name], took)
    return seconds


def how_often(run: Callable[[], object]) -> int:
    """Calls that take SHORT, found after one that may load or compile something."""
    run()
    times = 1
    while True:
        start = time.perf_counter()
        for _ in range(times):
            run()
        if time.perf_counter() - start >= SHORT:
            return times
        times *= 2


def in_own_process(run: Callable[..., Result], *args: object) -> Result:
    """What `run` returns, from a fresh process whose libraries use one thread."""
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, *args).result()


def peak_memory() -> int:
    """The most bytes that this process had in memory."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux ru_maxrss counts the memory of the parent too.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def sentence_lengths(corpora: Path | None) -> tuple[NDArray[np.int32], str]:
    """Lengths of English sentences, and where they are from."""
    path = corpora / EWT if corpora else SAMPLE
    lengths = [len(sentence.words) for sentence in read_conllu(read_lines(path))]
    source = "UD English EWT, train" if corpora else "the sample corpus (no --corpora given)"
    return np.array(lengths, dtype="int32"), f"sentence lengths of {source}"


def describe_machine(packages: Sequence[str]) -> str:
    """Processor, cores, load and versions, in two lines."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("spacy-bcrf", *packages))
    return (
        f"{_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
        f"Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def print_table(
    title: str, rows: Sequence[Mapping[str, object]], notes: str, csv_path: Path | None = None
) -> None:
    """One table of plain text, its columns the keys of the first row; and as CSV if wanted."""
    columns = list(rows[0])
    cells = [columns, *([str(row[column]) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"{title}\n{notes}\n")
    for line in cells:
        # Names to the left, figures to the right.
        print("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]))
    sys.stdout.flush()
    if csv_path:
        with csv_path.open("w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
