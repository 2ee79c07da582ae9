"""Kernels of structured inference: typed functions that dispatch on the array module.

All functions take a ragged batch of B sequences with N tokens and T tags:

unary        (N, T) float32 or float64, C-contiguous; -inf forbids a tag
transitions  (T, T), shared by all edges, or (N, T, T); C-contiguous, with the dtype of `unary`;
             -inf forbids a transition. In (N, T, T), row i scores the edge from flat token i to
             i + 1. The row of each sequence's last token is ignored.
lengths      (B,) int32, zeros allowed, with sum N

The functions raise TypeError for arrays of another type or dtype, and ValueError for other shapes,
arrays that are not C-contiguous, and options out of range. For NumPy arrays they also raise
ValueError for lengths that do not sum to N and tags out of range; on a GPU, this would wait for it.
They do not check scores; `chain.Potentials` does. Results have the array module and the dtype of
`unary`. A sequence without an allowed labeling has the value -inf and zero marginals.

A signal such as Ctrl-C ends a call of the CPU kernels within a fraction of a second, with the
exception of the signal handler.

The CPU kernels are compiled for several instruction sets and use the fastest that the machine has.
The environment variable BCRF_ISA (baseline, avx2 or avx512) selects another; the first call of a
kernel reads it, and raises ValueError if the machine lacks it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from . import threads
from .arguments import (
    FLOAT64,
    INT32,
    array_module,
    check_array,
    check_batch,
    check_bregman,
    check_count,
    check_edges,
    check_lengths,
    check_output,
    float_dtype,
)
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
    xp = check_batch(unary, transitions, lengths)
    check_edges(edges, transitions)
    return _backend(xp).sum_product(xp, unary, transitions, lengths, edges, marginals)


def max_product(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array]:
    """Best labeling, int32 (N,), and its score (B,), by the Viterbi algorithm.

    Ties go to the lower tag, from the last token to the first. O(N T^2) time.
    """
    xp = check_batch(unary, transitions, lengths)
    return _backend(xp).max_product(xp, unary, transitions, lengths)


def entropy(unary: Array, transitions: Array, lengths: Array) -> Array:
    """Entropy (B,) of the CRF's distribution over labelings, in nats.

    -inf for a sequence without an allowed labeling. O(N T^2) time, O(N T) memory with shared
    transitions.
    """
    xp = check_batch(unary, transitions, lengths)
    return _backend(xp).entropy(xp, unary, transitions, lengths)


def pair_marginals(
    unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    """Tag marginals (N, T), and marginals (N, M) of M pairs of adjacent tags.

    Pair m has tag heads[m] at a token and tag tails[m] at the next token; heads and tails are int32
    (M,). The row of each sequence's last token is 0. O(N T^2 + N M) time.
    """
    xp = check_batch(unary, transitions, lengths)
    check_array("heads", heads, xp, INT32, (None,))
    check_array("tails", tails, xp, INT32, heads.shape)
    return _backend(xp).pair_marginals(xp, unary, transitions, lengths, heads, tails)


def sample(unary: Array, transitions: Array, lengths: Array, uniform: Array) -> Array:
    """Draw n labelings, int32 (n, N), from the CRF's distribution.

    uniform: float64 (n, N), random numbers in [0, 1). O(N T^2 + n N T) time.
    """
    xp = check_batch(unary, transitions, lengths)
    check_array("uniform", uniform, xp, FLOAT64, (None, len(unary)))
    return _backend(xp).sample(xp, unary, transitions, lengths, uniform)


def nbest(unary: Array, transitions: Array, lengths: Array, n: int) -> tuple[Array, Array]:
    """The n best labelings, int32 (n, N), and their scores (B, n), by A*, best first.

    The search is exact. If a sequence has fewer labelings, the remaining scores are -inf; an empty
    sequence has one labeling, of score 0. O(N T^2 + n N T) time.
    """
    xp = check_batch(unary, transitions, lengths)
    check_count("n", n)
    return _backend(xp).nbest(xp, unary, transitions, lengths, n)


def beam_search(
    unary: Array, transitions: Array, lengths: Array, n: int, width: int
) -> tuple[Array, Array]:
    """The n best labelings that beam search finds, in the form that `nbest` returns.

    The beam holds the `width` best prefixes. It skips prefixes that no allowed labeling extends, so
    it finds a labeling if there is one. O(N width T) time, O(longest sequence * width) memory.
    """
    xp = check_batch(unary, transitions, lengths)
    check_count("n", n)
    check_count("width", width)
    return _backend(xp).beam_search(xp, unary, transitions, lengths, n, width)


def dijkstra(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """Best labeling, int32 (N,), and its score (B,), by Dijkstra's algorithm.

    The third array (B,) counts the pairs of token and tag that the search expanded.
    """
    xp = check_batch(unary, transitions, lengths)
    return _backend(xp).dijkstra(xp, unary, transitions, lengths)


def path_scores(unary: Array, transitions: Array, lengths: Array, tags: Array) -> Array:
    """Score (B,) of one labeling, int32 (N,); -inf if it uses a forbidden tag or transition."""
    xp = check_batch(unary, transitions, lengths)
    check_array("tags", tags, xp, INT32, (len(unary),))
    return _backend(xp).path_scores(xp, unary, transitions, lengths, tags)


def add_features(tags: Array, weights: Array, lengths: Array, node: Array, edge: Array) -> None:
    """Add the weighted features of n labelings to a gradient, in place.

    The features of a labeling are the indicators of each token's tag and of each edge's two tags.
    tags: int32 (n, N); weights: (B, n). node: (N, T); edge: (T, T) or (N, T, T).
    """
    xp = array_module(node)
    dtype = float_dtype("node", node, 2)
    n_tokens, t = node.shape
    check_lengths(lengths, xp)
    check_array("tags", tags, xp, INT32, (None, n_tokens))
    check_array("weights", weights, xp, dtype, (len(lengths), len(tags)))
    check_output("node", node, xp, dtype, node.shape)
    check_output("edge", edge, xp, dtype, (t, t), (n_tokens, t, t))
    _backend(xp).add_features(xp, tags, weights, lengths, node, edge)


def gram_matrices(tags: Array, lengths: Array, n_tags: int, shared: bool) -> Array:
    """Gram matrix (B, n, n), float64, of the features of n labelings, int32 (n, N).

    With shared transitions, the edge features count each pair of tags in the sequence. Otherwise
    each edge has its own features.
    """
    xp = array_module(tags)
    check_count("n_tags", n_tags)
    check_lengths(lengths, xp)
    check_array("tags", tags, xp, INT32, (None, None))
    return _backend(xp).gram_matrices(xp, tags, lengths, n_tags, shared)


def hildreth(gains: Array, gram: Array, most: float) -> Array:
    """Steps (B, n) in [0, most] that maximize <steps, gains> - steps' gram steps / 2.

    Coordinate ascent (Hildreth 1957) until no step moves. gains: float64 (B, n); gram: float64
    (B, n, n), positive semidefinite. A step whose diagonal entry is zero stays 0.
    """
    xp = array_module(gains)
    float_dtype("gains", gains, 2)
    size, n = gains.shape
    check_array("gains", gains, xp, FLOAT64, (size, n))
    check_array("gram", gram, xp, FLOAT64, (size, n, n))
    if not 0 <= most < float("inf"):
        raise ValueError(f"most must be at least 0 and finite, got {most}")
    return _backend(xp).hildreth(xp, gains, gram, most)


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
    xp = check_batch(unary, transitions, lengths)
    check_edges(edges, transitions)
    check_bregman(options)
    return _backend(xp).bregman(xp, unary, transitions, lengths, options, edges)


def mean_field(unary: Array, transitions: Array, lengths: Array, n_iter: int) -> Result:
    """Mean-field value <w, r> + H(r) and tag marginals r after n_iter parallel updates.

    The updates start from softmax(unary) and set r_i ~ exp(unary_i + r_{i-1} W_{i-1} + W_i r_{i+1})
    (Wang et al. 2020). Forbidden transitions count as 0 in W. O(n_iter N T^2) time, O(N T) memory.
    """
    xp = check_batch(unary, transitions, lengths)
    check_count("n_iter", n_iter)
    return _backend(xp).mean_field(xp, unary, transitions, lengths, n_iter)


def mean_field_loss(
    unary: Array, transitions: Array, lengths: Array, gold: Array, n_iter: int
) -> Result:
    """Mean-field loss (B,), -sum_i log r_i(gold_i) after n_iter updates, and its gradient.

    The gradient is back-propagated through all updates. Its edges have the shape of `transitions`
    and are 0 for forbidden transitions. gold: int32 (N,); tokens with -1 do not count.
    O(n_iter N T^2) time, O(n_iter N T) memory.
    """
    xp = check_batch(unary, transitions, lengths)
    check_array("gold", gold, xp, INT32, (len(unary),))
    check_count("n_iter", n_iter)
    return _backend(xp).mean_field_loss(xp, unary, transitions, lengths, gold, n_iter)


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


def _backend(xp: ModuleType) -> Backend:
    """The kernels for the arrays of a module."""
    if xp.__name__ == "numpy":
        return _native()
    from . import cuda

    return cuda


def _native() -> Any:
    try:
        from . import native
    except ImportError as error:
        raise ImportError(
            f"the kernels in {__path__[0]} are not compiled; in a clone: pip install -e ."
        ) from error
    return native
