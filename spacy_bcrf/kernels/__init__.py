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

from . import threads

Array = Any
"""A NumPy or CuPy array."""

Edges = Literal["none", "sum", "each"]
"""Which edge marginals are wanted: none, each (N, T, T), or, where transitions are shared, their
sum over all edges (T, T)."""


class Result(NamedTuple):
    """What an inference says of each sequence and token.

    value: (B,) the log-partition (or its bound).
    unary: (N, T) tag marginals, or None if they were not asked for.
    edges: (T, T), (N, T, T) with zeros in the rows of last tokens, or None.
    """

    value: Array
    unary: Array | None
    edges: Array | None


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


def entropy(unary: Array, transitions: Array, lengths: Array) -> Array:
    """Entropy (B,) of the CRF's distribution over labelings, in nats; -inf if there is none.

    O(N T^2) time, O(N T) memory with shared transitions.
    """
    xp, backend = _dispatch(unary)
    return backend.entropy(xp, unary, transitions, lengths)


def pair_marginals(
    unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    """Tag marginals (N, T), and the marginals of M pairs of neighbouring tags, (N, M): of heads[m]
    at a token and tails[m] at the next. heads, tails: int32 (M,). O(N T^2 + N M) time."""
    xp, backend = _dispatch(unary)
    return backend.pair_marginals(xp, unary, transitions, lengths, heads, tails)


def sample(unary: Array, transitions: Array, lengths: Array, uniform: Array) -> Array:
    """Labelings, int32 (n, N), drawn from the CRF's distribution with uniform numbers in [0, 1),
    float64 (n, N). O(N T^2 + n N T)."""
    xp, backend = _dispatch(unary)
    return backend.sample(xp, unary, transitions, lengths, uniform)


def nbest(unary: Array, transitions: Array, lengths: Array, n: int) -> tuple[Array, Array]:
    """The n best labelings, int32 (n, N), and their scores (B, n), both best first.

    Exact, by A*. A sequence that has fewer labelings has scores -inf in place of the missing ones;
    an empty sequence has one, of score 0. O(N T^2 + n N T) time.
    """
    xp, backend = _dispatch(unary)
    return backend.nbest(xp, unary, transitions, lengths, n)


def beam_search(
    unary: Array, transitions: Array, lengths: Array, n: int, width: int
) -> tuple[Array, Array]:
    """Like `nbest`, but of the labelings all of whose prefixes are among the `width` best.

    Prefixes that cannot be finished are left out, so there is always one if there is any.
    O(N width T) time, O(longest width) memory.
    """
    xp, backend = _dispatch(unary)
    return backend.beam_search(xp, unary, transitions, lengths, n, width)


def dijkstra(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """The best labeling, int32 (N,), its score (B,), and how many pairs of token and tag were
    expanded to find it (B,), by Dijkstra's algorithm."""
    xp, backend = _dispatch(unary)
    return backend.dijkstra(xp, unary, transitions, lengths)


def path_scores(unary: Array, transitions: Array, lengths: Array, tags: Array) -> Array:
    """(B,) score of one labeling a sequence, int32 (N,); -inf where it uses what is forbidden."""
    xp, backend = _dispatch(unary)
    return backend.path_scores(xp, unary, transitions, lengths, tags)


def add_features(tags: Array, weights: Array, lengths: Array, node: Array, edge: Array) -> None:
    """Adds the features of labelings, weighted, to a gradient: which tag each token has, and which
    tags each edge.

    tags: int32 (n, N); weights: (B, n). node: (N, T); edge: (T, T) or (N, T, T), added to in place.
    """
    xp, backend = _dispatch(node)
    backend.add_features(xp, tags, weights, lengths, node, edge)


def gram_matrices(tags: Array, lengths: Array, n_tags: int, shared: bool) -> Array:
    """Scalar products (B, n, n), float64, of the features of labelings, int32 (n, N).

    With shared transitions the features of edges are the counts of each pair of tags in the
    sequence, else each edge has its own.
    """
    xp, backend = _dispatch(tags)
    return backend.gram_matrices(xp, tags, lengths, n_tags, shared)


def hildreth(gains: Array, gram: Array, most: float) -> Array:
    """Steps (B, n) in [0, most] that maximize <steps, gains> - steps' gram steps / 2.

    Hildreth (1957): one step after the other to its best value, over and over, until none moves.
    gains: (B, n), gram: (B, n, n), positive semidefinite, zero where no step may be made; float64.
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
    """B(w), or a bound of it, and its gradient by iterative Bregman projections.

    Corro et al. (2025), Algorithm 1, in node-factor form: O(n_iter N T^2) time, O(N T) memory with
    shared transitions.
    """
    xp, backend = _dispatch(unary)
    return backend.bregman(xp, unary, transitions, lengths, options, edges)


def mean_field(unary: Array, transitions: Array, lengths: Array, n_iter: int) -> Result:
    """Mean-field value and tag marginals: n_iter parallel updates from softmax(unary),

    r_i ~ exp(unary_i + r_{i-1} W_{i-1} + W_i r_{i+1}), with 0 for forbidden transitions W (Wang et
    al. 2020). The value is <w, r> + H(r). O(n_iter N T^2) time, O(N T) memory.
    """
    xp, backend = _dispatch(unary)
    return backend.mean_field(xp, unary, transitions, lengths, n_iter)


def mean_field_loss(
    unary: Array, transitions: Array, lengths: Array, gold: Array, n_iter: int
) -> Result:
    """-sum_i log r_i(gold_i) after n_iter updates, (B,), and its gradient, back-propagated through
    all of them: node (N, T), edge like the transitions, 0 for forbidden ones.

    gold: int32 (N,); tokens with -1 are left out of the sum. O(n_iter N T) memory.
    """
    xp, backend = _dispatch(unary)
    return backend.mean_field_loss(xp, unary, transitions, lengths, gold, n_iter)


def set_threads(n: int | None) -> None:
    """How many threads the kernels share the sequences of a NumPy batch among, at most.

    None is the default: what the environment variable BCRF_THREADS says, or else OMP_NUM_THREADS,
    or else as many as there are cores for this process, but one in worker processes, that is in
    forked ones and those of multiprocessing. A forked process starts from the default again. The
    number changes no bit of a result: sums are over chunks of the batch that do not depend on it.
    """
    threads.set_count(n)


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
    """The array module, and the module that has the kernels for its arrays."""
    xp = array_module(array)
    if xp.__name__ == "numpy":
        try:
            from . import native  # type: ignore[attr-defined]
        except ImportError as error:
            raise ImportError(
                f"the kernels in {__path__[0]} are not compiled; in a clone: pip install -e ."
            ) from error
        return xp, native
    from . import cuda

    return xp, cuda
