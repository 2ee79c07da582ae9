"""Cost of each kernel by length, tags, batch and threads, and its share of the machine's limit.

    python -m benchmarks.scaling --csv scaling.csv

The same run measures the limits. Operations are the multiply-adds of a float32 product of
1024 x 1024 matrices, two operations each. A copy of 64 MiB gives the bytes read and written. On a
CPU one core is measured, and n threads count n times. With shared transitions (T, T), a kernel
needs at least these operations for each edge, and these bytes read and written for each token. An
addition and a comparison count as two operations each, because no instruction does both: they
reach half of the limit of multiply-adds.

    CRF      6 T^2            forward, backward, pair sums     8 T      scores in, marginals out
    Viterbi  4 T^2            additions and comparisons        4 T + 4  scores in, tags out
    BCRF(n)  2 (n + 3) T^2    two products for every second    8 T
                              token an iteration, two for the
                              marginals, pair sums
    MF(n)    12 n T^2         two products an update, two back 8 T + 4  loss and gradient, gold in
                              through it, two pair sums

The fraction of the limit is the longer of the two minimum times, divided by the measured time.
It ignores exponentials and the padding of vectors, so it is low for few tags.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from bcrf import kernels
from bcrf.kernels import BregmanOptions
from benchmarks.inputs import random_potentials
from benchmarks.timing import interleave
from lab.machine import describe_machine
from lab.options import add_csv_option, need
from lab.processes import in_own_process
from lab.tables import print_table

N_ITER = 10
# Operations for each edge and bytes for each token, by number of tags.
WORK: dict[str, Callable[[int], tuple[float, float]]] = {
    "CRF": lambda t: (6 * t * t, 8 * t),
    "Viterbi": lambda t: (4 * t * t, 4 * t + 4),
    "BCRF(10)": lambda t: (2 * (N_ITER + 3) * t * t, 8 * t),
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
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help="default: powers of 2")
    add_csv_option(parser)
    args = parser.parse_args()
    panels = dict(PANELS)
    if args.device == "cpu":
        panels["threads"] = args.threads or powers_to(kernels.threads.count())
    # NumPy's matrix product takes its number of threads at import, so it needs a fresh process.
    rows, peak = in_own_process(measure, panels, args.device, args.rounds)
    base = ", ".join(f"{name} {value}" for name, value in BASE.items())
    notes = (
        f"{describe_machine(['numpy'])}; {args.device}\n"
        f"limits: {peak[0] / 1e9:.1f} GFLOP/s, {peak[1] / 1e9:.1f} GB/s; default sizes: {base}\n"
        f"us/token, median of {args.rounds} interleaved rounds; fraction of the limit"
    )
    print_table("Scaling", rows, notes, args.csv)


def powers_to(most: int) -> list[int]:
    """Return the powers of 2 up to `most`, and `most`."""
    return sorted({1, most, *(2**k for k in range(most.bit_length()) if 2**k <= most)})


def measure(
    panels: Mapping[str, list[int]], device: str, rounds: int
) -> tuple[list[Row], tuple[float, float]]:
    """Return the rows of all panels, and the limits in operations and bytes a second."""
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
                edges = (size["length"] - 1) / size["length"]
                least = least_seconds(kernel, size["tags"], edges, peak) / size["threads"]
                row[kernel] = f"{each * 1e6:.4f}"
                row[f"{kernel} of limit"] = f"{least / each:.3f}"
            rows.append(row)
    return rows, peak


def least_seconds(kernel: str, n_tags: int, edges: float, peak: tuple[float, float]) -> float:
    """Return the least seconds for a token. edges: edges a token; peak: see `limits`."""
    operations, n_bytes = WORK[kernel](n_tags)
    return max(operations * edges / peak[0], n_bytes / peak[1])


def array_library(device: str) -> tuple[ModuleType, Callable[[], object]]:
    """Return NumPy or CuPy, and a function that waits for the device."""
    if device == "cpu":
        return np, lambda: None
    cupy = need("cupy", "cuda12x")
    return cupy, cupy.cuda.Device().synchronize


def limits(xp: Any, wait: Callable[[], object]) -> tuple[float, float]:
    """Measure the limits in operations and bytes a second."""
    a = xp.ones((1024, 1024), dtype="float32")
    source = xp.ones(2**24, dtype="float32")
    target = xp.empty_like(source)
    runs = {"product": lambda: a @ a, "copy": lambda: xp.copyto(target, source)}
    seconds = interleave({name: partial(waited, run, wait) for name, run in runs.items()}, 50)
    return 2 * 1024**3 / seconds["product"], 2 * source.nbytes / seconds["copy"]


def calls(
    xp: Any, wait: Callable[[], object], size: dict[str, int]
) -> dict[str, Callable[[], object]]:
    """Return the kernel calls for one size."""
    rng = np.random.default_rng(0)
    lengths = np.full(size["batch"], size["length"], dtype="int32")
    potentials = random_potentials(size["tags"], lengths, rng)
    gold = xp.asarray(rng.integers(size["tags"], size=int(lengths.sum()), dtype="int32"))
    batch = (
        xp.asarray(potentials.unary),
        xp.asarray(potentials.transitions),
        xp.asarray(lengths),
    )
    return {name: partial(waited, run, wait) for name, run in kernel_calls(*batch, gold).items()}


def kernel_calls(
    unary: Any, transitions: Any, lengths: Any, gold: Any
) -> dict[str, Callable[[], object]]:
    """Return a call of each kernel for one batch."""
    batch = unary, transitions, lengths
    options = BregmanOptions(N_ITER, 1.25, None)
    return {
        "CRF": partial(kernels.sum_product, *batch, edges="sum"),
        "Viterbi": partial(kernels.max_product, *batch),
        "BCRF(10)": partial(kernels.bregman, *batch, options, edges="sum"),
        "MF(10)": partial(kernels.mean_field_loss, *batch, gold, N_ITER),
    }


def waited(run: Callable[[], object], wait: Callable[[], object]) -> None:
    """Call `run` and wait for the device."""
    run()
    wait()


if __name__ == "__main__":
    main()
