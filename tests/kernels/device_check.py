"""Every kernel on a GPU against the CPU, over tags, dtypes, transitions, gold and scales of scores.

    python -m tests.kernels.device_check --tags 2 5 17 33 50 64 70 130 --scales 2 30 300

`compute-sanitizer --tool racecheck python -m tests.kernels.device_check --tags 5 17` finds races.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from bcrf.chain import BCRF, CRF, Inference, MeanField, Potentials, entropy, viterbi
from benchmarks.scaling import array_library
from benchmarks.torch_heads import to_host

LENGTHS = np.array([7, 0, 1, 2, 30, 12], "int32")
HEADS: list[Inference] = [CRF(), BCRF(10), BCRF(9, "auto"), MeanField(5)]
LIMITS = {"float32": 5e-4, "float64": 1e-8}
"""Largest differences, in units of the largest number of the result on the CPU."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tags", type=int, nargs="+", default=[2, 5, 17, 33, 50, 64, 70, 130])
    parser.add_argument("--scales", type=float, nargs="+", default=[2, 30, 300])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    args = parser.parse_args()
    xp, _ = array_library(args.device)
    compared = wrong = 0
    for case in product(args.tags, LIMITS, (True, False), args.scales):
        for name, mine, other in compare(xp, *case):
            compared += 1
            largest = max(1, float(np.abs(other).max(initial=0)))
            difference = float(np.abs(mine - other).max(initial=0)) / largest
            if not difference <= LIMITS[case[1]]:
                wrong += 1
                print(*case, name, f"differs by {difference:.1e}", flush=True)
    print(f"{compared:,} results compared, {wrong} differ")
    raise SystemExit(1 if wrong else 0)


def compare(
    xp: Any, tags: int, dtype: str, shared: bool, scale: float
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name of a result, and the result of the device and of the CPU."""
    rng = np.random.default_rng(tags)
    n = int(LENGTHS.sum())
    unary = (rng.normal(size=(n, tags)) * scale).astype(dtype)
    transitions = rng.normal(size=(tags, tags) if shared else (n, tags, tags)).astype(dtype)
    transitions[..., 0, tags - 1] = -np.inf
    here = Potentials(unary, transitions, LENGTHS)
    there = Potentials(*map(xp.asarray, here.arrays))
    gold = viterbi(here)[0]
    sets = rng.random((n, tags)) < 0.5
    sets[np.arange(n), gold] = True
    yield "viterbi", *(to_host(viterbi(each)[1]) for each in (there, here))
    yield "entropy", *(to_host(entropy(each)) for each in (there, here))
    for head in HEADS:
        found = [head.marginals(each).unary for each in (there, here)]
        yield f"{head} marginals", *map(to_host, found)
        for annotation in (gold, sets):
            if isinstance(head, MeanField) and annotation is sets:
                continue
            losses = head.loss(there, xp.asarray(annotation)), head.loss(here, annotation)
            for part in "unary", "transitions":
                gradients = [getattr(gradient, part) for _, gradient in losses]
                yield f"{head} {part}, {annotation.dtype} gold", *map(to_host, gradients)
            yield f"{head} loss, {annotation.dtype} gold", *(to_host(loss) for loss, _ in losses)


if __name__ == "__main__":
    main()
