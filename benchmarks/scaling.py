"""Cost of each kernel against length, tags, batch and threads; its share of what the machine can.

    python -m benchmarks.scaling --csv scaling.csv --plot scaling.png

Limits are measured in the same run: float32 multiply-adds of a product of 1024 x 1024 matrices,
counted as two operations each, and bytes read and written by a copy of 64 MiB; on a CPU with one
core, and with n threads taken to be n times that. What a kernel has to do at least, transitions
(T, T) shared, in operations for each edge and in bytes read and written for each token:

    CRF      6 T^2            forward, backward, pair sums     8 T      scores in, marginals out
    Viterbi  2 T^2            additions and comparisons        4 T + 4  scores in, tags out
    BCRF(n)  2 (2 n + 3) T^2  two products an iteration, two   8 T
                              for the marginals, pair sums
    MF(n)    12 n T^2         two products an update, two back 8 T + 4  loss and gradient, gold in
                              through it, two pair sums

The fraction is the longer of the two times that the limits allow over the time that it takes.
Vectors are whole and exponentials are not counted, so it is low where there are few tags.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.common import describe_machine, in_own_process, interleave, print_table
from spacy_bcrf import kernels
from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.extras import require
from spacy_bcrf.kernels import BregmanOptions

N_ITER = 10
# Operations an edge and bytes a token.
WORK: dict[str, Callable[[int], tuple[float, float]]] = {
    "CRF": lambda t: (6 * t * t, 8 * t),
    "Viterbi": lambda t: (2 * t * t, 4 * t + 4),
    "BCRF(10)": lambda t: (2 * (2 * N_ITER + 3) * t * t, 8 * t),
    "MF(10)": lambda t: (12 * N_ITER * t * t, 8 * t + 4),
}
BASE = {"length": 30, "tags": 17, "batch": 64, "threads": 1}
PANELS = {
    "length": [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000],
    "tags": [2, 4, 9, 17, 32, 50, 64, 128, 256],
    "batch": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
}
Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        metavar="N",
        help="default: 1 and powers of 2 to the cores",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV too")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    args = parser.parse_args()
    if args.plot:
        require("matplotlib.figure", "plot")
    panels = dict(PANELS)
    if args.device == "cpu":
        panels["threads"] = args.threads or powers_to(kernels.threads.count())
    # NumPy's matrix product uses as many threads as there are cores, unless told at its start.
    rows, peak = in_own_process(measure, panels, args.device, args.rounds)
    base = ", ".join(f"{name} {value}" for name, value in BASE.items())
    notes = (
        f"{describe_machine(['numpy'])}; {args.device}\n"
        f"limits: {peak[0] / 1e9:.1f} GFLOP/s, {peak[1] / 1e9:.1f} GB/s; where not varied: {base}\n"
        f"us/token, fastest of {args.rounds} interleaved rounds; the fraction of the limit"
    )
    print_table("Scaling", rows, notes, args.csv)
    if args.plot:
        draw(args.plot, rows, list(panels))


def powers_to(most: int) -> list[int]:
    return sorted({1, most, *(2**k for k in range(most.bit_length()) if 2**k <= most)})


def measure(
    panels: Mapping[str, list[int]], device: str, rounds: int
) -> tuple[list[Row], tuple[float, float]]:
    xp, wait = array_library(device)
    peak = limits(xp, wait)
    rows: list[Row] = []
    for name, values in panels.items():
        for value in values:
            size = BASE | {name: value}
            kernels.set_threads(size["threads"])
            seconds = interleave(calls(xp, wait, size), rounds)
            row: Row = {"against": name, "value": value}
            for kernel, total in seconds.items():
                each = total / (size["length"] * size["batch"])
                operations, n_bytes = WORK[kernel](size["tags"])
                operations *= (size["length"] - 1) / size["length"]
                least = max(operations / peak[0], n_bytes / peak[1]) / size["threads"]
                row[kernel] = f"{each * 1e6:.4f}"
                row[f"{kernel} of limit"] = f"{least / each:.3f}"
            rows.append(row)
    return rows, peak


def array_library(device: str) -> tuple[ModuleType, Callable[[], object]]:
    """NumPy or CuPy, and what waits until the device is done."""
    if device == "cpu":
        return np, lambda: None
    cupy = require("cupy", "cuda12x")
    return cupy, cupy.cuda.Device().synchronize


def limits(xp: Any, wait: Callable[[], object]) -> tuple[float, float]:
    """Operations and bytes a second: the most of some runs, after one that is not counted."""
    a = xp.ones((1024, 1024), dtype="float32")
    source = xp.ones(2**24, dtype="float32")
    target = xp.empty_like(source)
    runs = {"product": lambda: a @ a, "copy": lambda: xp.copyto(target, source)}
    seconds = interleave({name: partial(waited, run, wait) for name, run in runs.items()}, 50)
    return 2 * 1024**3 / seconds["product"], 2 * source.nbytes / seconds["copy"]


def calls(
    xp: Any, wait: Callable[[], object], size: dict[str, int]
) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(0)
    n, tags = size["length"] * size["batch"], size["tags"]
    unary = xp.asarray(2 * rng.standard_normal((n, tags), dtype="float32"))
    transitions = xp.asarray(rng.standard_normal((tags, tags), dtype="float32"))
    gold = xp.asarray(rng.integers(tags, size=n, dtype="int32"))
    batch = unary, transitions, xp.full(size["batch"], size["length"], dtype="int32")
    options = BregmanOptions(N_ITER, 1.25, None)
    runs: dict[str, Callable[[], object]] = {
        "CRF": partial(kernels.sum_product, *batch, edges="sum"),
        "Viterbi": partial(kernels.max_product, *batch),
        "BCRF(10)": partial(kernels.bregman, *batch, options, edges="sum"),
        "MF(10)": partial(kernels.mean_field_loss, *batch, gold, N_ITER),
    }
    return {name: partial(waited, run, wait) for name, run in runs.items()}


def waited(run: Callable[[], object], wait: Callable[[], object]) -> None:
    run()
    wait()


def draw(path: Path, rows: list[Row], panels: list[str]) -> None:
    """A panel for each thing that the cost is measured against."""
    figure = require("matplotlib.figure", "plot").Figure(figsize=(10, 7), layout="constrained")
    for axes, name in zip(figure.subplots(2, 2).flat, panels, strict=False):
        mine = [row for row in rows if row["against"] == name]
        for kernel in WORK:
            axes.plot(
                [row["value"] for row in mine],
                [float(str(row[kernel])) for row in mine],
                marker="o",
                label=kernel,
            )
        axes.set(xlabel=name, ylabel="us/token", yscale="log")
        if name == "threads":
            axes.set_xticks([row["value"] for row in mine])
        else:
            axes.set_xscale("log")
    figure.axes[0].legend()
    with replacing(path) as part:
        figure.savefig(part, format="png", dpi=120)


if __name__ == "__main__":
    main()
