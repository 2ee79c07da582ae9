"""Types of the kernels."""

from typing import Any, Literal, NamedTuple

Array = Any
"""A NumPy or CuPy array."""

Edges = Literal["none", "sum", "each"]
"""Edge marginals to return: none, their sum over all edges (T, T), or one matrix for each edge.

The sum needs shared transitions. The matrices are (N, T, T)."""


class Result(NamedTuple):
    """Value and marginals of a batch.

    value: (B,) the log-partition, or its bound.
    unary: (N, T) tag marginals, or None if they were not requested.
    edges: (T, T), or (N, T, T) with zeros in the row of each sequence's last token, or None.
    """

    value: Array
    unary: Array | None
    edges: Array | None


UnaryRule = Literal["mean", "outgoing", "chain"]
"""What a Bregman result has for each token and tag, see `BregmanOptions`."""

UNARIES: tuple[UnaryRule, ...] = ("mean", "outgoing", "chain")
"""The rules in the order of `Unary` in shared/projection.hh."""


RELAXATION = 1.25
"""The over-relaxation of Bregman CRFs by default.

`python -m benchmarks.bregman_defaults` at a24a8f5f compares accuracies after training with it and
with plain projections.
"""


class BregmanOptions(NamedTuple):
    """Options of the Bregman projections.

    n_iter: number of iterations, the k of Algorithm 1. The first one projects the inner positions
        2, 4, .. (from 0), the second one the positions 1, 3, .., and so on.
    relaxation: over-relaxation in [1, 2), where 1 is the plain projection. None estimates it. The
        first two iterations are plain.
    tolerance: stop a sequence after two iterations, one of each parity, that found a difference of
        at most this much (L1) between the flows into and out of each position. None runs all.
    bound: "upper" reports the dual value, "lower" the value of a feasible point.
    scale: inverse temperature, which multiplies all scores.
    unary: what `Result.unary` has for each token and tag.
        "mean": tag marginals, the mean of the flows into and out of the tag. They are the gradient.
        "outgoing": tag marginals, the flow out of the tag; at the last token, the flow in.
        "chain": unary scores of the Markov chain that starts with the arcs of the first edge and
        continues with the conditional probabilities of the arcs. Its transitions are the scaled
        transitions. Its log-partition is 0.
    """

    n_iter: int
    relaxation: float | None
    tolerance: float | None
    bound: Literal["upper", "lower"] = "upper"
    scale: float = 1.0
    unary: UnaryRule = "mean"
