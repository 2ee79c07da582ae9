"""Write problems and the oracle's results, for the kernels of another compiler or processor.

    python -m tests.kernels.write_vectors vectors.bin

check_vectors.cc reads the file, which is a list of cases: see `write`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from oracles import reference, reference_mean_field, reference_posterior  # noqa: E402
from pairwise import pairwise  # noqa: E402
from test_kernels import doubles, problem  # noqa: E402
from test_transition_blocks import scheme  # noqa: E402

from bcrf.kernels import Array, BregmanOptions  # noqa: E402
from bcrf.kernels.backend import UNARIES  # noqa: E402

TAGS = [1, 2, 3, 5, 8, 9, 16, 17, 31, 33, 50]
LENGTHS = [np.arange(40) % 13, np.ones(9), np.full(3, 40), np.full(32, 6), np.array([70, 1, 2])]
LONG = np.array([2600, 4, 2100])
OPTIONS = [
    BregmanOptions(5, 1.25, None, "upper"),
    BregmanOptions(6, None, 1e-2, "upper", unary="outgoing"),
    BregmanOptions(4, 1.0, None, "lower", 7.0),
    BregmanOptions(3, 1.25, None, "upper", unary="chain"),
]


def cases() -> Iterator[list[Array]]:
    """Yield the arrays of each case, all float64: scalars, problem, results."""
    rng = np.random.default_rng(0)
    samples = pairwise(
        TAGS,
        range(len(LENGTHS)),
        ["float32", "float64"],
        [True, False],
        [False, True],
        [2.0, 30.0, 3000.0],
        range(len(OPTIONS)),
    )
    # Two threads share a long sequence with shared transitions.
    for tags, dtype, forbid in pairwise([3, 17], ["float32", "float64"], [False, True]):
        samples.append((tags, None, dtype, True, forbid, 2.0, 0))
    # Blocks of allowed transitions.
    for labels, scale, dtype in pairwise([7, 17, 32], [2.0, 30.0, 3000.0], ["float32", "float64"]):
        samples.append((4 * labels + 1, 0, dtype, True, "BILUO", scale, 0))
    for tags, lengths, dtype, shared, forbid, scale, k in samples:
        sizes = (LONG if lengths is None else LENGTHS[lengths]).astype("int32")
        unary, transitions, sizes = problem(rng, tags, shared, dtype, forbid is True, scale, sizes)
        if forbid == "BILUO":
            weak = rng.normal(0, 2, transitions.shape)
            transitions = np.where(scheme("BILUO", tags // 4), weak, -np.inf).astype(dtype)
        arrays = doubles(unary, transitions, sizes)
        edges, options = "sum" if shared else "each", OPTIONS[k]
        with np.errstate(all="ignore"):
            crf = reference.sum_product(np, *arrays, edges, True)
            scores = reference.max_product(np, *arrays)[1]
            entropies = reference_posterior.entropy(np, *arrays)
            bregman = reference.bregman(np, *arrays, options, edges)
        # Mean field amplifies the rounding errors of large scores, so the check has none.
        gold = unary.argmax(axis=1)
        with np.errstate(all="ignore"):
            mean_field = reference_mean_field.mean_field_loss(np, *arrays, gold, 3)
        tolerance = (1e-5 if dtype == "float32" else 1e-9) * max(1, scale / 10)
        scalars = [unary.itemsize, tags, len(sizes), len(unary), shared, options.n_iter]
        scalars += [options.relaxation or 0, -1 if options.tolerance is None else options.tolerance]
        scalars += [options.bound == "lower", UNARIES.index(options.unary), options.scale]
        scalars.append(scale == 2)
        yield [
            np.array([*scalars, tolerance]),
            *(sizes, *arrays[:2], *crf, scores, entropies, gold, *mean_field, *bregman),
        ]


def main(path: str) -> None:
    with Path(path).open("wb") as file:
        for arrays in cases():
            for array in arrays:
                array.astype("<f8").tofile(file)


if __name__ == "__main__":
    main(sys.argv[1])
