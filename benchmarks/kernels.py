"""Time of the CPU kernels by tags, batch size, range of the scores and instruction set.

    python -m benchmarks.kernels --csv kernels.csv

The first table has batches of sequences of 30 tokens, float32. The kernels compute marginals, their
sum over edges and the log-partition, or the best labeling. The second table has the tags of the
BILUO scheme. "free" allows all transitions, "BILUO" those of the scheme.

The third table has scores of a large range: the tag scores have the standard deviations of the
columns. The scheme forbids transitions, or half of them are forbidden at random. "x" is the slowest
range in times of the fastest. The fourth splits a call of `CRF.loss` into a part that grows with
the batch and one that does not: 16 sequences of 20 tokens, 17 tags.

Each instruction set runs in a process of its own, because a process has one. The processes take
turns, and each cell is a median over them. --csv writes the first table.

--against FOLDER compares with the kernels of another checkout, which must be built in place. Both
take turns in one run, and a last table has the ratios of their times: above 1, this checkout is
faster.
"""

import argparse
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from numpy.typing import NDArray

from bcrf import kernels
from bcrf.chain import CRF, Potentials
from bcrf.kernels import BregmanOptions
from bcrf.schemes import BILUO
from benchmarks.inputs import random_potentials
from benchmarks.scaling import N_ITER, kernel_calls
from benchmarks.timing import interleave
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.processes import in_own_process
from lab.tables import print_table

TAGS = (9, 17, 50, 69)
BATCHES = (1, 8, 16, 64)
LENGTH = 30
SCALES = (2.0, 60.0, 1000.0, 10_000.0)
LABELS = (4, 7, 12, 17, 25)
LABEL_BATCHES = (1, 64)
WIDE_LABELS = (4, 17)
FORBIDDEN = ("BILUO", "half")
SCHEMES = ("free", "BILUO")
DTYPES = ("float32", "float64")
KERNELS = ("CRF", "CRF, only the value", "BCRF(10)", "Viterbi")
Times = dict[tuple[object, ...], float]
"""Seconds a call, by the size of the call."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each instruction set")
    sets = kernels.instruction_sets()
    parser.add_argument("--sets", nargs="+", choices=sets, default=sets, metavar="NAME")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout")
    add_csv_option(parser)
    args = parser.parse_args()
    turns: dict[str, list[Times]] = {name: [] for name in args.sets}
    others: dict[str, list[Times]] = {name: [] for name in args.sets}
    for _ in range(args.rounds):
        for name, times in turns.items():
            os.environ["BCRF_ISA"] = name
            times.append(in_own_process(measure))
            if args.against:
                others[name].append(measure_checkout(args.against))
    medians = {name: medians_of(times) for name, times in turns.items()}
    origin = f"{describe_machine(['numpy'])}; one thread"
    notes = f"{origin}\nns per token, medians of {args.rounds} processes"
    batches = f"batches of {', '.join(map(str, BATCHES))}"
    print_table("Kernels", rows_of_sizes(medians), f"{notes}; {batches}", args.csv)
    print_table("Schemes", rows_of_schemes(medians), notes)
    print_table("Ranges", rows_of_ranges(medians), notes)
    print_table("Small calls", rows_of_calls(medians), "us of processor time")
    if args.against:
        before = {name: medians_of(times) for name, times in others.items()}
        print_table(
            "Ratios", rows_of_ratios(before, medians), "time of the other checkout / of this one"
        )


def medians_of(turns: list[Times]) -> Times:
    """Return the median time of each call over all turns."""
    return {size: median(turn[size] for turn in turns) for size in turns[0]}


def measure_checkout(folder: Path) -> Times:
    """Return the seconds of all calls of this benchmark with the engine of another checkout."""
    if not (folder / "bcrf").is_dir():
        raise SystemExit(f"{folder}: expected a checkout with the folder bcrf")
    code = (
        "import pickle, sys; sys.path.insert(0, sys.argv[1]); import bcrf; "
        "sys.path.remove(sys.argv[1]); from benchmarks.kernels import measure; "
        "times = measure(); sys.stdout.buffer.write(pickle.dumps(times))"
    )
    command = [sys.executable, "-c", code, str(folder.resolve())]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return pickle.loads(run.stdout)


def rows_of_ratios(before: dict[str, Times], after: dict[str, Times]) -> list[dict[str, object]]:
    """Return a row for each set and kind of cells, with the quantiles of before / after."""
    rows = []
    for name, times in after.items():
        kinds: dict[str, dict[tuple[object, ...], float]] = {}
        for size, seconds in times.items():
            kind = {3: "sizes", 4: "schemes", 5: "ranges"}.get(len(size), "small calls")
            kernel = size[1] if kind == "schemes" else size[0]
            ratio = before[name][size] / seconds
            kinds.setdefault(f"{kind}, {kernel}", {})[size] = ratio
        for kind, ratios in kinds.items():
            worst = min(ratios, key=ratios.__getitem__)
            row: dict[str, object] = {"set": name, "cells": kind, "n": len(ratios)}
            row |= {"median": f"{median(ratios.values()):.2f}", "least": f"{ratios[worst]:.2f}"}
            rows.append(row | {"at": " ".join(map(str, worst))})
    return rows


def measure() -> Times:
    """Return the seconds of all calls with the instruction set of this process."""
    kernels.set_threads(1)
    calls: dict[tuple[object, ...], Callable[[], object]] = {}
    rng = np.random.default_rng(0)
    for tags in TAGS:
        for batch in BATCHES:
            runs = draw_calls(rng, tags, batch, LENGTH)
            calls |= {(kernel, tags, batch): runs[kernel] for kernel in KERNELS}
    for labels, batch, scheme in product(LABELS, LABEL_BATCHES, SCHEMES):
        allowed = allowed_transitions(labels)
        runs = draw_calls(rng, len(allowed), batch, LENGTH, allowed if scheme == "BILUO" else None)
        calls |= {(scheme, kernel, labels, batch): runs[kernel] for kernel in KERNELS}
    for labels, forbidden in product(WIDE_LABELS, FORBIDDEN):
        allowed = allowed_transitions(labels)
        if forbidden == "half":
            # Each tag may follow itself, so each sequence has an allowed labeling.
            allowed = (rng.random(allowed.shape) < 0.5) | np.eye(len(allowed), dtype=bool)
        for scale in SCALES:
            single = draw(rng, len(allowed), 64, LENGTH, scale)
            single.transitions[~allowed] = -np.inf
            for dtype in DTYPES:
                runs = range_calls(single.astype(dtype))
                calls |= {
                    (name, len(allowed), forbidden, dtype, scale): run
                    for name, run in runs.items()
                    if forbidden == "BILUO" or name in KERNELS
                }
    for batch in (16, 64):
        potentials = draw(rng, 17, batch, 20)
        gold = rng.integers(17, size=len(potentials.unary), dtype="int32")
        calls["small", batch] = partial(CRF().loss, potentials, gold)
    return interleave(calls, 3, process_time)


def draw(
    rng: np.random.Generator, tags: int, batch: int, length: int, scale: float = 2.0
) -> Potentials:
    """Draw potentials of sequences of one length. scale: standard deviation of the tag scores."""
    return random_potentials(tags, np.full(batch, length, dtype="int32"), rng, scale)


def draw_calls(
    rng: np.random.Generator,
    tags: int,
    batch: int,
    length: int,
    allowed: NDArray[np.bool_] | None = None,
) -> dict[str, Callable[[], object]]:
    """Return a call of each kernel for sequences of one length. allowed: transitions."""
    potentials = draw(rng, tags, batch, length)
    if allowed is not None:
        potentials.transitions[~allowed] = -np.inf
    gold = rng.integers(tags, size=len(potentials.unary), dtype="int32")
    arrays = potentials.arrays
    value = partial(kernels.sum_product, *arrays, marginals=False)
    return {**kernel_calls(*arrays, gold), "CRF, only the value": value}


def allowed_transitions(n_labels: int) -> NDArray[np.bool_]:
    """Return the transitions (T, T) that BILUO allows, T = 4 n_labels + 1."""
    return BILUO.constraints([str(i) for i in range(n_labels)]).transitions


def range_calls(potentials: Potentials) -> dict[str, Callable[[], object]]:
    """Return a call of each kernel of the third table."""
    batch = potentials.arrays
    plain = BregmanOptions(N_ITER, 1.25, None)
    chain, lower = plain._replace(unary="chain"), plain._replace(bound="lower")
    uniform = np.random.default_rng(0).random((1, len(potentials.unary)))
    return {
        "CRF": partial(kernels.sum_product, *batch, edges="sum"),
        "BCRF(10)": partial(kernels.bregman, *batch, plain, edges="sum"),
        "CRF, each edge": partial(kernels.sum_product, *batch, edges="each"),
        "entropy": partial(kernels.entropy, *batch),
        "sample": partial(kernels.sample, *batch, uniform),
        "BCRF(10), its chain": partial(kernels.bregman, *batch, chain),
        "BCRF(10), lower bound": partial(kernels.bregman, *batch, lower, edges="sum"),
    }


def rows_of_sizes(medians: dict[str, Times]) -> list[dict[str, object]]:
    """Return a row for each kernel and number of tags. A cell of a set has all batches."""
    rows = []
    for kernel in KERNELS:
        for tags in TAGS:
            row: dict[str, object] = {"kernel": kernel, "tags": tags}
            for name, times in medians.items():
                each = (times[kernel, tags, batch] / (batch * LENGTH) for batch in BATCHES)
                row[name] = ", ".join(f"{seconds * 1e9:.0f}" for seconds in each)
            rows.append(row)
    return rows


def rows_of_schemes(medians: dict[str, Times]) -> list[dict[str, object]]:
    """Return a row for each kernel, number of labels and batch, with both sets of transitions."""
    rows = []
    for kernel, labels, batch in product(KERNELS, LABELS, LABEL_BATCHES):
        row: dict[str, object] = {"kernel": kernel, "labels": labels, "tags": 4 * labels + 1}
        row["batch"] = batch
        for name, times in medians.items():
            for scheme in SCHEMES:
                each = times[scheme, kernel, labels, batch] / (batch * LENGTH)
                row[f"{name} {scheme}"] = f"{each * 1e9:.0f}"
        rows.append(row)
    return rows


def rows_of_ranges(medians: dict[str, Times]) -> list[dict[str, object]]:
    """Return a row for each kernel, size, mask, precision and set, with a column for each range."""
    rows = []
    any_times = next(iter(medians.values()))
    for *case, first in (size for size in any_times if len(size) == 5):
        if first != SCALES[0]:
            continue
        for name, times in medians.items():
            each = [times[(*case, scale)] / (64 * LENGTH) * 1e9 for scale in SCALES]
            columns = ("kernel", "tags", "forbidden", "type", "set")
            row: dict[str, object] = dict(zip(columns, [*case, name], strict=True))
            row |= {f"{s:g}": f"{ns:.0f}" for s, ns in zip(SCALES, each, strict=True)}
            rows.append(row | {"x": f"{max(each) / min(each):.1f}"})
    return rows


def rows_of_calls(medians: dict[str, Times]) -> list[dict[str, object]]:
    """Return a row for each set. "fixed" is what a call costs without the sequences."""
    rows: list[dict[str, object]] = []
    for name, times in medians.items():
        small, large = (times["small", batch] * 1e6 for batch in (16, 64))
        fixed = (4 * small - large) / 3
        rows.append({"set": name, "CRF.loss": f"{small:.1f}", "fixed": f"{fixed:.1f}"})
    return rows


if __name__ == "__main__":
    main()
