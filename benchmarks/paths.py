"""Time of each path of a kernel call, beside the choice of its plan.

    python -m benchmarks.paths

The thresholds of bcrf/kernels/cpu/plan.hh choose a path by operation, dtype, number of tags, range
of the scores, and tokens that fill the lanes. BCRF_PATH forces each path in turn, and a row has its
time per token. "regret" is the time of the plan's choice over that of the fastest path: 1 is best.

The sequences have 30 tokens, and one tile of lanes is filled to a quarter, a half or all. Scores of
deviation 2 fit plain numbers, scores of deviation 300 need wide floats or float64. "free" allows
all transitions. "BILUO" allows the transitions of the scheme, which leave blocks of tags.

A threshold without a path of its own needs a second checkout: change it there, build, and run
`python -m benchmarks.kernels --against FOLDER` (blocks: its table "Schemes") or
`python -m benchmarks.scaling` in both (windows and tiles of long sequences).
"""

import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from time import process_time

import numpy as np

from bcrf import kernels
from bcrf.chain import Potentials
from bcrf.kernels import BregmanOptions
from benchmarks.inputs import random_potentials
from benchmarks.kernels import allowed_transitions
from benchmarks.scaling import N_ITER
from benchmarks.timing import interleave
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.processes import in_own_process
from lab.tables import print_table

PATHS = ("lanes", "rows", "lanes wide", "rows wide", "float64")
LENGTH = 30
LABELS = (1, 2, 4, 6, 7, 8, 10, 12, 15, 16, 17)
"""Labels of BILUO: 4 n + 1 tags, on both sides of the thresholds at 20, 24, 32, 44 and 64 tags."""
SHARES = (0.25, 0.5, 1.0)
DEVIATIONS = (2.0, 300.0)
OPERATIONS = ("sum_product", "bregman", "mean_field", "max_product")
Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sets = kernels.instruction_sets()
    parser.add_argument("--sets", nargs="+", choices=sets, default=sets[-1:], metavar="NAME")
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=OPERATIONS)
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS, metavar="N")
    parser.add_argument("--rounds", type=int, default=3)
    add_csv_option(parser)
    args = parser.parse_args()
    rows: list[Row] = []
    for name in args.sets:
        os.environ["BCRF_ISA"] = name
        rows += in_own_process(measure, args.operations, args.labels, args.rounds)
    notes = (
        f"{describe_machine(['numpy'])}; one thread\n"
        f"ns per token; sequences of {LENGTH} tokens; medians of {args.rounds} rounds"
    )
    print_table("Paths", rows, notes, args.csv)


def measure(operations: list[str], labels: list[int], rounds: int) -> list[Row]:
    """Return a row for each size, with the instruction set of this process."""
    kernels.set_threads(1)
    rows = []
    for operation, size in product(operations, sizes(labels)):
        if size[3] > DEVIATIONS[0] and operation in ("mean_field", "max_product"):
            continue  # plain numbers hold all scores
        rows.append(measure_size(operation, *size, rounds))
    return rows


def sizes(labels: list[int]) -> Iterator[tuple[str, int, float, float, str]]:
    """Yield dtype, labels, share of the lanes, deviation of the scores and transitions."""
    yield from product(("float32", "float64"), labels, SHARES, DEVIATIONS, ("free", "BILUO"))


def measure_size(
    operation: str, dtype: str, labels: int, share: float, deviation: float, free: str, rounds: int
) -> Row:
    """Return the row of one size."""
    allowed = allowed_transitions(labels)
    tags = len(allowed)
    lanes = {"baseline": 16, "avx2": 32, "avx512": 64}[kernels.instruction_set()]
    # A lane has two tokens, or one sequence.
    of_tokens = operation in ("bregman", "mean_field")
    n = max(1, round(share * lanes / np.dtype(dtype).itemsize))
    lengths = np.array([2 * n - 1] if of_tokens else [LENGTH] * n, "int32")
    potentials = random_potentials(tags, lengths, np.random.default_rng(0), deviation)
    if free != "free":
        potentials.transitions[~allowed] = -np.inf
    run = call(operation, potentials.astype(dtype))
    contenders: dict[str, Callable[[], object]] = {"plan": run}
    for path in PATHS:
        try:
            with_path(path, run)
        except ValueError:
            continue  # the call lacks this path
        contenders[path] = partial(with_path, path, run)
    tokens = int(lengths.sum())
    times = {
        name: seconds / tokens * 1e9
        for name, seconds in interleave(contenders, rounds, process_time).items()
    }
    fastest = min(times.values())
    row: Row = {"set": kernels.instruction_set(), "operation": operation, "dtype": dtype}
    row |= {"tags": tags, "share": share, "deviation": deviation, "transitions": free}
    row |= {name: f"{times[name]:.0f}" if name in times else "" for name in ("plan", *PATHS)}
    return row | {"regret": f"{times['plan'] / fastest:.2f}"}


def call(operation: str, potentials: Potentials) -> Callable[[], object]:
    """Return a call of the kernel of an operation."""
    batch = potentials.arrays
    options = BregmanOptions(N_ITER, kernels.RELAXATION, None)
    calls: dict[str, Callable[[], object]] = {
        "sum_product": partial(kernels.sum_product, *batch, edges="sum"),
        "bregman": partial(kernels.bregman, *batch, options, edges="sum"),
        "mean_field": partial(kernels.mean_field, *batch, N_ITER),
        "max_product": partial(kernels.max_product, *batch),
    }
    return calls[operation]


def with_path(path: str, run: Callable[[], object]) -> object:
    """Call `run` with a forced path. Raises ValueError if the call lacks it."""
    os.environ["BCRF_PATH"] = path
    try:
        return run()
    finally:
        del os.environ["BCRF_PATH"]


if __name__ == "__main__":
    main()
