"""Kernels of structured inference: typed functions that dispatch on the array module.

All functions take a ragged batch of B sequences with N tokens and T tags:

unary        (N, T) float32 or float64, C-contiguous; -inf forbids a tag
transitions  (T, T), shared by all edges, or (N, T, T); C-contiguous, with the dtype of `unary`;
             -inf forbids a transition. In (N, T, T), row i scores the edge from flat token i to
             i + 1. The row of each sequence's last token is ignored.
lengths      (B,) int32, zeros allowed, with sum N

The functions do not check values and shapes; `chain.Potentials` does. They raise ValueError for
arrays that are not C-contiguous. Results have the array module and the dtype of `unary`. A sequence
without an allowed labeling has the value -inf and zero marginals.

The CPU kernels are compiled for several instruction sets and use the fastest that the machine has.
The environment variable BCRF_ISA (baseline, avx2 or avx512) selects another; the first call of a
kernel reads it, and raises ValueError if the machine lacks it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from . import threads
from .backend import Array, Backend, BregmanOptions, Edges, Result

__all__ = [
    "Array",
    "Backend",
    "BregmanOptions",
    "Edges",
    "Result",
    "add_features",
    "array_module",
    "beam_search",
    "bregman",
    "dijkstra",
    "entropy",
    "gram_matrices",
    "hildreth",
    "instruction_set",
    "instruction_sets",
    "max_product",
    "mean_field",
    "mean_field_loss",
    "nbest",
    "pair_marginals",
    "path_scores",
    "sample",
    "set_threads",
    "sum_product",
]


def sum_product(
    unary: Array,
    transitions: Array,
    lengths: Array,
    *,
    edges: Edges = "none",
    marginals: bool = True,
) -> Result:
    """Log-partition (B,) and marginals of the linear-chain CRF by the forward-backward algorithm.

    With `marginals=False` and `edges="none"`, it computes the log-partition only.
    O(N T^2) time; O(N T) memory with shared transitions.
    """
    xp, backend = _dispatch(unary)
    return backend.sum_product(xp, unary, transitions, lengths, edges, marginals)


def max_product(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array]:
    """Best labeling, int32 (N,), and its score (B,), by the Viterbi algorithm.

    Ties go to the lower tag, from the last token to the first. O(N T^2) time.
    """
    xp, backend = _dispatch(unary)
    return backend.max_product(xp, unary, transitions, lengths)


def entropy(unary: Array, transitions: Array, lengths: Array) -> Array:
    """Entropy (B,) of the CRF's distribution over labelings, in nats.

    -inf for a sequence without an allowed labeling. O(N T^2) time, O(N T) memory with shared
    transitions.
    """
    xp, backend = _dispatch(unary)
    return backend.entropy(xp, unary, transitions, lengths)


def pair_marginals(
    unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    """Tag marginals (N, T), and marginals (N, M) of M pairs of adjacent tags.

    Pair m has tag heads[m] at a token and tag tails[m] at the next token; heads and tails are int32
    (M,). The row of each sequence's last token is 0. O(N T^2 + N M) time.
    """
    xp, backend = _dispatch(unary)
    return backend.pair_marginals(xp, unary, transitions, lengths, heads, tails)


def sample(unary: Array, transitions: Array, lengths: Array, uniform: Array) -> Array:
    """Draw n labelings, int32 (n, N), from the CRF's distribution.

    uniform: float64 (n, N), random numbers in [0, 1). O(N T^2 + n N T) time.
    """
    xp, backend = _dispatch(unary)
    return backend.sample(xp, unary, transitions, lengths, uniform)


def nbest(unary: Array, transitions: Array, lengths: Array, n: int) -> tuple[Array, Array]:
    """The n best labelings, int32 (n, N), and their scores (B, n), by A*, best first.

    The search is exact. If a sequence has fewer labelings, the remaining scores are -inf; an empty
    sequence has one labeling, of score 0. O(N T^2 + n N T) time.
    """
    xp, backend = _dispatch(unary)
    return backend.nbest(xp, unary, transitions, lengths, n)


def beam_search(
    unary: Array, transitions: Array, lengths: Array, n: int, width: int
) -> tuple[Array, Array]:
    """The n best labelings that beam search finds, in the form that `nbest` returns.

    The beam holds the `width` best prefixes. It skips prefixes that no allowed labeling extends, so
    it finds a labeling if there is one. O(N width T) time, O(longest sequence * width) memory.
    """
    xp, backend = _dispatch(unary)
    return backend.beam_search(xp, unary, transitions, lengths, n, width)


def dijkstra(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """Best labeling, int32 (N,), and its score (B,), by Dijkstra's algorithm.

    The third array (B,) counts the pairs of token and tag that the search expanded.
    """
    xp, backend = _dispatch(unary)
    return backend.dijkstra(xp, unary, transitions, lengths)


def path_scores(unary: Array, transitions: Array, lengths: Array, tags: Array) -> Array:
    """Score (B,) of one labeling, int32 (N,); -inf if it uses a forbidden tag or transition."""
    xp, backend = _dispatch(unary)
    return backend.path_scores(xp, unary, transitions, lengths, tags)


def add_features(tags: Array, weights: Array, lengths: Array, node: Array, edge: Array) -> None:
    """Add the weighted features of n labelings to a gradient, in place.

    The features of a labeling are the indicators of each token's tag and of each edge's two tags.
    tags: int32 (n, N); weights: (B, n). node: (N, T); edge: (T, T) or (N, T, T).
    """
    xp, backend = _dispatch(node)
    backend.add_features(xp, tags, weights, lengths, node, edge)


def gram_matrices(tags: Array, lengths: Array, n_tags: int, shared: bool) -> Array:
    """Gram matrix (B, n, n), float64, of the features of n labelings, int32 (n, N).

    With shared transitions, the edge features count each pair of tags in the sequence. Otherwise
    each edge has its own features.
    """
    xp, backend = _dispatch(tags)
    return backend.gram_matrices(xp, tags, lengths, n_tags, shared)


def hildreth(gains: Array, gram: Array, most: float) -> Array:
    """Steps (B, n) in [0, most] that maximize <steps, gains> - steps' gram steps / 2.

    Coordinate ascent (Hildreth 1957) until no step moves. gains: float64 (B, n); gram: float64
    (B, n, n), positive semidefinite. A step whose diagonal entry is zero stays 0.
    """
    xp, backend = _dispatch(gains)
    return backend.hildreth(xp, gains, gram, most)


def bregman(
    unary: Array,
    transitions: Array,
    lengths: Array,
    options: BregmanOptions,
    *,
    edges: Edges = "none",
) -> Result:
    """Bound of B(w) and its gradient, the marginals, by iterative Bregman projections.

    `options.unary` selects other results for each tag. Corro et al. (2025), Algorithm 1, in
    node-factor form: O(n_iter N T^2) time, O(N T) memory with shared transitions.
    """
    xp, backend = _dispatch(unary)
    return backend.bregman(xp, unary, transitions, lengths, options, edges)


def mean_field(unary: Array, transitions: Array, lengths: Array, n_iter: int) -> Result:
    """Mean-field value <w, r> + H(r) and tag marginals r after n_iter parallel updates.

    The updates start from softmax(unary) and set r_i ~ exp(unary_i + r_{i-1} W_{i-1} + W_i r_{i+1})
    (Wang et al. 2020). Forbidden transitions count as 0 in W. O(n_iter N T^2) time, O(N T) memory.
    """
    xp, backend = _dispatch(unary)
    return backend.mean_field(xp, unary, transitions, lengths, n_iter)


def mean_field_loss(
    unary: Array, transitions: Array, lengths: Array, gold: Array, n_iter: int
) -> Result:
    """Mean-field loss (B,), -sum_i log r_i(gold_i) after n_iter updates, and its gradient.

    The gradient is back-propagated through all updates. Its edges have the shape of `transitions`
    and are 0 for forbidden transitions. gold: int32 (N,); tokens with -1 do not count.
    O(n_iter N T^2) time, O(n_iter N T) memory.
    """
    xp, backend = _dispatch(unary)
    return backend.mean_field_loss(xp, unary, transitions, lengths, gold, n_iter)


def set_threads(n: int | None) -> None:
    """Set the maximum number of threads that share the sequences of a NumPy batch.

    None restores the default: the environment variable BCRF_THREADS, else OMP_NUM_THREADS, else the
    number of cores available to this process. In worker processes (forked, or started by
    multiprocessing) the default is 1 if neither variable is set. A forked process starts from the
    default. Results do not depend on the number of threads, to the last bit.

    Raises ValueError if n < 1.
    """
    threads.set_count(n)


def instruction_sets() -> tuple[str, ...]:
    """Instruction sets of this machine that the CPU kernels can use, slowest first."""
    return _native().instruction_sets()


def instruction_set() -> str:
    """The instruction set that the CPU kernels use.

    Raises ValueError if the environment variable BCRF_ISA names one that this machine lacks.
    """
    return _native().instruction_set()


def array_module(array: Array) -> ModuleType:
    """The module of the array, NumPy or CuPy. Does not import CuPy for a NumPy array."""
    import numpy

    if isinstance(array, numpy.ndarray):
        return numpy
    if type(array).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy
    raise TypeError(f"expected a NumPy or CuPy array, got {type(array).__name__}")


def _dispatch(array: Array) -> tuple[ModuleType, Backend]:
    """The array module, and the kernels for its arrays."""
    xp = array_module(array)
    if xp.__name__ == "numpy":
        return xp, _native()
    from . import cuda

    return xp, cuda


def _native() -> Any:
    try:
        from . import native
    except ImportError as error:
        raise ImportError(
            f"the kernels in {__path__[0]} are not compiled; in a clone: pip install -e ."
        ) from error
    return native
