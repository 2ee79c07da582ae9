"""The inner loops of structured inference, typed, and dispatched on the array they are given.

Every function takes a ragged batch of B sequences with N tokens in all and T tags:

unary        (N, T) float32 or float64, C-contiguous; -inf forbids a tag
transitions  (T, T), shared, or (N, T, T), where row i scores the edge from flat token i to i + 1
             and the row of a sequence's last token is ignored; the dtype of `unary`
lengths      (B,) int32, zeros allowed, summing to N

Arguments are taken as checked (`chain.Potentials` checks them); what comes back is of the kind and
dtype that came in. A sequence without an allowed labeling has the value -inf and zero marginals.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal, NamedTuple

Array = Any
"""A NumPy or CuPy array."""

Edges = Literal["none", "sum", "each"]
"""Which edge marginals are wanted: none, each (N, T, T), or, where transitions are shared, their
sum over all edges (T, T)."""


class Result(NamedTuple):
    """What an inference says of each sequence and token.

    value: (B,) the log-partition (or its bound).
    node: (N, T) tag marginals, or None if they were not asked for.
    edge: (T, T), (N, T, T) with zeros in the rows of last tokens, or None.
    """

    value: Array
    node: Array | None
    edge: Array | None


class BregmanOptions(NamedTuple):
    """How far the Bregman projections run, and which bound of B(w) is reported.

    n_iter: iterations; one projects every inner position once, first the odd ones, then the even.
    relaxation: 1 is the plain projection, between 1 and 2 over-relaxed, None estimated as it runs.
    tolerance: stop a sequence once no position's marginals in and out differ by more (L1).
    bound: "upper", the dual value, or "lower", the value of a feasible point.
    scale: all scores are multiplied by it, an inverse temperature.
    """

    n_iter: int
    relaxation: float | None
    tolerance: float | None
    bound: Literal["upper", "lower"] = "upper"
    scale: float = 1.0


def sum_product(
    unary: Array,
    transitions: Array,
    lengths: Array,
    *,
    edges: Edges = "none",
    marginals: bool = True,
) -> Result:
    """Log-partition (B,) and marginals of the linear-chain CRF by the forward-backward algorithm.

    O(N T^2) time; O(N T) memory with shared transitions. With `marginals=False` only the value.
    """
    xp, backend = _dispatch(unary)
    return backend.sum_product(xp, unary, transitions, lengths, edges, marginals)


def max_product(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array]:
    """The best labeling, int32 (N,), and its score (B,), by the Viterbi algorithm.

    Of equal scores the lower tag wins, from the last token backwards.
    """
    xp, backend = _dispatch(unary)
    return backend.max_product(xp, unary, transitions, lengths)


def bregman(
    unary: Array,
    transitions: Array,
    lengths: Array,
    options: BregmanOptions,
    *,
    edges: Edges = "none",
) -> Result:
    """B(w), or a bound of it, and its gradient by iterative Bregman projections.

    Corro et al. (2025), Algorithm 1, in node-factor form: O(n_iter N T^2) time, O(N T) memory with
    shared transitions.
    """
    xp, backend = _dispatch(unary)
    return backend.bregman(xp, unary, transitions, lengths, options, edges)


def array_module(array: Array) -> ModuleType:
    """NumPy or CuPy, whichever made `array`. Does not import CuPy for a NumPy array."""
    import numpy

    if isinstance(array, numpy.ndarray):
        return numpy
    if type(array).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy
    raise TypeError(f"expected a NumPy or CuPy array, got {type(array).__name__}")


def _dispatch(array: Array) -> tuple[ModuleType, ModuleType]:
    xp = array_module(array)
    if xp.__name__ == "numpy":
        from . import native  # type: ignore[attr-defined]

        return xp, native
    from . import reference

    return xp, reference
