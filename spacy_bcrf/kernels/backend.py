"""Types of the kernels, and the protocol that the modules of kernels satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

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


class BregmanOptions(NamedTuple):
    """Options of the Bregman projections.

    n_iter: number of iterations. One iteration projects each inner position once, first the odd
        positions, then the even ones.
    relaxation: over-relaxation in [1, 2), where 1 is the plain projection. None estimates it.
    tolerance: stop a sequence when the incoming and outgoing marginals of each position differ by
        at most this much (L1). None runs all iterations.
    bound: "upper" reports the dual value, "lower" the value of a feasible point.
    scale: inverse temperature, which multiplies all scores.
    """

    n_iter: int
    relaxation: float | None
    tolerance: float | None
    bound: Literal["upper", "lower"] = "upper"
    scale: float = 1.0


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


if TYPE_CHECKING:
    # The compiled module has no types. tests/kernels/test_stubs.py compares its signatures.
    from . import cuda

    _cuda: Backend = cuda
