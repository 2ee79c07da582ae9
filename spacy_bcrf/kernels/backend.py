"""Types of the kernels, and the protocol that the modules of kernels satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

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


class Backend(Protocol):
    """The kernels for the arrays of one array module, `xp`.

    Each method implements the function of the same name in `spacy_bcrf.kernels`, which documents
    shapes and results.
    """

    def sum_product(
        self,
        xp: ModuleType,
        unary: Array,
        transitions: Array,
        lengths: Array,
        edges: Edges,
        marginals: bool,
    ) -> Result: ...

    def max_product(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array
    ) -> tuple[Array, Array]: ...

    def entropy(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array
    ) -> Array: ...

    def pair_marginals(
        self,
        xp: ModuleType,
        unary: Array,
        transitions: Array,
        lengths: Array,
        heads: Array,
        tails: Array,
    ) -> tuple[Array, Array]: ...

    def sample(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array, uniform: Array
    ) -> Array: ...

    def nbest(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n: int
    ) -> tuple[Array, Array]: ...

    def beam_search(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n: int, width: int
    ) -> tuple[Array, Array]: ...

    def dijkstra(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array
    ) -> tuple[Array, Array, Array]: ...

    def path_scores(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array, tags: Array
    ) -> Array: ...

    def add_features(
        self,
        xp: ModuleType,
        tags: Array,
        weights: Array,
        lengths: Array,
        node: Array,
        edge: Array,
    ) -> None: ...

    def gram_matrices(
        self, xp: ModuleType, tags: Array, lengths: Array, n_tags: int, shared: bool
    ) -> Array: ...

    def hildreth(self, xp: ModuleType, gains: Array, gram: Array, most: float) -> Array: ...

    def bregman(
        self,
        xp: ModuleType,
        unary: Array,
        transitions: Array,
        lengths: Array,
        options: BregmanOptions,
        edges: Edges,
    ) -> Result: ...

    def mean_field(
        self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n_iter: int
    ) -> Result: ...

    def mean_field_loss(
        self,
        xp: ModuleType,
        unary: Array,
        transitions: Array,
        lengths: Array,
        gold: Array,
        n_iter: int,
    ) -> Result: ...
