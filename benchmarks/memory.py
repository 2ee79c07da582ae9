"""Peak memory and time per token of `chain.CRF` and `chain.BCRF` on one very long sequence.

python -m benchmarks.memory
python -m benchmarks.memory --device cuda
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from bcrf.chain import BCRF, CRF, Inference, Potentials
from benchmarks.inputs import random_potentials
from benchmarks.scaling import array_library
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.processes import in_own_process, peak_memory
from lab.tables import print_table

WARM_UP, ROUNDS = 3, 9
INFERENCES: dict[str, Inference] = {"CRF": CRF(), "BCRF(10)": BCRF(n_iter=10)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--tags", type=int, default=50)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    add_csv_option(parser)
    args = parser.parse_args()
    rows = []
    for name in INFERENCES:
        for length in args.lengths:
            # The peak belongs to the process, so each measurement has its own.
            rows.append(in_own_process(measure, name, length, args.tags, args.device))
    notes = (
        f"{describe_machine(['numpy'])}\n{args.tags} tags; peak of a fresh process, "
        f"including potentials and gradient; times: median of {ROUNDS} calls after {WARM_UP}"
    )
    print_table("One long sequence", rows, notes, args.csv)


def measure(name: str, length: int, n_tags: int, device: str) -> dict[str, object]:
    """Return a row: time of loss with gradient and of decoding, and peak memory."""
    inference = INFERENCES[name]
    row: dict[str, object] = {"head": name, "tokens": f"{length:,}"}
    xp, wait = array_library(device)
    rng = np.random.default_rng(0)
    drawn = random_potentials(n_tags, np.array([length], dtype="int32"), rng)
    arrays = (xp.asarray(x) for x in drawn.arrays)
    potentials = Potentials(*arrays)
    gold = xp.asarray(rng.integers(n_tags, size=length, dtype="int32"))
    tasks: dict[str, Callable[[], object]] = {
        "loss+gradient": lambda: inference.loss(potentials, gold),
        "decode": lambda: inference.decode(potentials),
    }
    for task, run in tasks.items():
        # A virtual machine is slow to give pages that are new to it: the first calls take them.
        seconds = [seconds_of(run, wait) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
        row[f"{task} us/token"] = f"{median(seconds) / length * 1e6:.2f}"
    # CuPy's pool keeps what was freed, so its size is the peak.
    peak = peak_memory() if device == "cpu" else xp.get_default_memory_pool().total_bytes()
    row["peak MiB"] = f"{peak / 2**20:,.0f}"
    return row


def seconds_of(run: Callable[[], object], wait: Callable[[], object]) -> float:
    """Return the time of one call."""
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
