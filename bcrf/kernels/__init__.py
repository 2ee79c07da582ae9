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

Each call has a plan: steps, each with a layout of the numbers in vectors and a kind of numbers.
`plan` returns it, and `path_counts` says which paths have computed sequences. The plan depends on
the range of a sample of the scores. The environment variable BCRF_PATH ("lanes", "rows", "lanes
wide", "rows wide" or "float64") forces a path ahead of the last one, which takes what it cannot
hold. A call raises ValueError if it does not have this path. README.md in this folder is the map.
"""

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from .backend import RELAXATION, UNARIES, Array, BregmanOptions, Edges, Result
from .threads import set_threads

__all__ = [
    "RELAXATION",
    "Array",
    "BregmanOptions",
    "Edges",
    "Result",
    "add_features",
    "array_module",
    "beam_search",
    "bregman",
    "clear_path_counts",
    "dijkstra",
    "entropy",
    "fused_loss",
    "gram_matrices",
    "hildreth",
    "instruction_set",
    "instruction_sets",
    "max_product",
    "mean_field",
    "mean_field_loss",
    "nbest",
    "pair_marginals",
    "path_counts",
    "path_scores",
    "plan",
    "sample",
    "set_threads",
    "sum_product",
    "take_errors",
]

_INT32, _FLOAT64 = np.dtype("int32"), np.dtype("float64")
_FLOATS = np.dtype("float32"), _FLOAT64
_INT_MAX = 2**31 - 1

_Shape = tuple[int | None, ...]
"""The shape that an array must have. None stands for any number."""


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
    xp = _check_batch(unary, transitions, lengths)
    _check_edges(edges, transitions)
    return _backend(xp).sum_product(xp, unary, transitions, lengths, edges, marginals)


def max_product(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array]:
    """Best labeling, int32 (N,), and its score (B,), by the Viterbi algorithm.

    Ties go to the lower tag, from the last token to the first.
    O(N T^2) time.
    """
    xp = _check_batch(unary, transitions, lengths)
    return _backend(xp).max_product(xp, unary, transitions, lengths)


def entropy(unary: Array, transitions: Array, lengths: Array) -> Array:
    """Entropy (B,) of the CRF's distribution over labelings, in nats.

    -inf for a sequence without an allowed labeling. O(N T^2) time, O(N T) memory with shared
    transitions.
    """
    xp = _check_batch(unary, transitions, lengths)
    return _backend(xp).entropy(xp, unary, transitions, lengths)


def pair_marginals(
    unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    """Tag marginals (N, T), and marginals (N, M) of M pairs of adjacent tags.

    Pair m has tag heads[m] at a token and tag tails[m] at the next token; heads and tails are int32
    (M,). The row of each sequence's last token is 0. O(N T^2 + N M) time.
    """
    xp = _check_batch(unary, transitions, lengths)
    _check_array("heads", heads, xp, _INT32, (None,))
    _check_array("tails", tails, xp, _INT32, heads.shape)
    return _backend(xp).pair_marginals(xp, unary, transitions, lengths, heads, tails)


def sample(unary: Array, transitions: Array, lengths: Array, uniform: Array) -> Array:
    """Draw n labelings, int32 (n, N), from the CRF's distribution.

    uniform: float64 (n, N), random numbers in [0, 1). O(N T^2 + n N T) time.
    """
    xp = _check_batch(unary, transitions, lengths)
    _check_array("uniform", uniform, xp, _FLOAT64, (None, len(unary)))
    return _backend(xp).sample(xp, unary, transitions, lengths, uniform)


def nbest(unary: Array, transitions: Array, lengths: Array, n: int) -> tuple[Array, Array]:
    """The n best labelings, int32 (n, N), and their scores (B, n), by A*, best first.

    The search is exact. If a sequence has fewer labelings, the remaining scores are -inf; an empty
    sequence has one labeling, of score 0. O(N T^2 + n N T) time.
    """
    xp = _check_batch(unary, transitions, lengths)
    _check_count("n", n)
    return _backend(xp).nbest(xp, unary, transitions, lengths, n)


def beam_search(
    unary: Array, transitions: Array, lengths: Array, n: int, width: int
) -> tuple[Array, Array]:
    """The n best labelings that beam search finds, in the form that `nbest` returns.

    The beam holds the `width` best prefixes. It skips prefixes that no allowed labeling extends, so
    it finds a labeling if there is one. O(N width T) time, O(longest sequence * width) memory.
    """
    xp = _check_batch(unary, transitions, lengths)
    _check_count("n", n)
    _check_count("width", width)
    return _backend(xp).beam_search(xp, unary, transitions, lengths, n, width)


def dijkstra(unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """Best labeling, int32 (N,), and its score (B,), by Dijkstra's algorithm.

    The third array (B,) counts the pairs of token and tag that the search expanded.
    """
    xp = _check_batch(unary, transitions, lengths)
    return _backend(xp).dijkstra(xp, unary, transitions, lengths)


def path_scores(unary: Array, transitions: Array, lengths: Array, tags: Array) -> Array:
    """Score (B,) of one labeling, int32 (N,); -inf if it uses a forbidden tag or transition."""
    xp = _check_batch(unary, transitions, lengths)
    _check_array("tags", tags, xp, _INT32, (len(unary),))
    return _backend(xp).path_scores(xp, unary, transitions, lengths, tags)


def add_features(tags: Array, weights: Array, lengths: Array, node: Array, edge: Array) -> None:
    """Add the weighted features of n labelings to a gradient, in place.

    The features of a labeling are the indicators of each token's tag and of each edge's two tags.
    tags: int32 (n, N); weights: (B, n). node: (N, T); edge: (T, T) or (N, T, T).
    """
    xp = array_module(node, "node")
    dtype = _float_dtype("node", node, 2)
    n_tokens, t = node.shape
    _check_array("lengths", lengths, xp, _INT32, (None,))
    _check_array("tags", tags, xp, _INT32, (None, n_tokens))
    _check_array("weights", weights, xp, dtype, (len(lengths), len(tags)))
    _check_output("node", node, xp, dtype, node.shape)
    _check_output("edge", edge, xp, dtype, (t, t), (n_tokens, t, t))
    _backend(xp).add_features(xp, tags, weights, lengths, node, edge)


def gram_matrices(tags: Array, lengths: Array, n_tags: int, shared: bool) -> Array:
    """Gram matrix (B, n, n), float64, of the features of n labelings, int32 (n, N).

    With shared transitions, the edge features count each pair of tags in the sequence. Otherwise
    each edge has its own features.
    """
    xp = array_module(tags, "tags")
    _check_count("n_tags", n_tags)
    _check_array("lengths", lengths, xp, _INT32, (None,))
    _check_array("tags", tags, xp, _INT32, (None, None))
    return _backend(xp).gram_matrices(xp, tags, lengths, n_tags, shared)


def hildreth(gains: Array, gram: Array, most: float) -> Array:
    """Steps (B, n) in [0, most] that maximize <steps, gains> - steps' gram steps / 2.

    Coordinate ascent (Hildreth 1957) until no step moves. gains: float64 (B, n); gram: float64
    (B, n, n), positive semidefinite. A step whose diagonal entry is zero stays 0.
    """
    xp = array_module(gains, "gains")
    _float_dtype("gains", gains, 2)
    size, n = gains.shape
    _check_array("gains", gains, xp, _FLOAT64, (size, n))
    _check_array("gram", gram, xp, _FLOAT64, (size, n, n))
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
    xp = _check_batch(unary, transitions, lengths)
    _check_edges(edges, transitions)
    _check_bregman(options)
    return _backend(xp).bregman(xp, unary, transitions, lengths, options, edges)


def fused_loss(
    unary: Array,
    transitions: Array,
    lengths: Array,
    gold: Array,
    options: BregmanOptions | None = None,
) -> Result | None:
    """Losses (B,) and their gradient: one call on a CPU, launches without a wait on a GPU.

    gold: int32 (N,) tags with -1 for unknown, or bool (N, T) allowed tags. options: of a Bregman
    CRF; None is a CRF. `Inference.loss` defines the loss. Transitions that all edges share have a
    summed gradient, (T, T).

    None if the loss needs several calls: for NumPy arrays, of partial, forbidden or wrong gold.
    `take_errors` returns wrong contents of CuPy arrays.
    """
    xp = _check_batch(unary, transitions, lengths)
    if options is not None:
        _check_bregman(options)
    if not isinstance(gold, xp.ndarray):
        raise TypeError(f"gold must be a {xp.__name__} array, got {type(gold).__name__}")
    if gold.shape not in (unary.shape[:1], unary.shape):
        raise ValueError(f"gold must have shape (N,) or (N, T) of unary, got {gold.shape}")
    arrays = unary, transitions, lengths, gold
    if xp is np:
        if gold.dtype != _INT32 or gold.ndim != 1 or not gold.flags.c_contiguous:
            return None
        return _backend(np).labeling_loss(xp, *arrays, options)
    from . import cuda

    if options is None:
        return cuda.sum_product_loss(xp, *arrays)
    return cuda.bregman_loss(xp, *arrays, options)


def take_errors(array: Array) -> list[tuple[int, str]]:
    """Return the first error of losses on each GPU since the last call, and clear them.

    An error has the index of the sequence in its batch, and a name of `cuda.errors.PROBLEMS`. The
    call waits for the GPU. array: any array of the module; NumPy has no errors.
    """
    if array_module(array) is np:
        return []
    from . import cuda

    return cuda.take_errors()


def mean_field(unary: Array, transitions: Array, lengths: Array, n_iter: int) -> Result:
    """Mean-field value <w, r> + H(r) and tag marginals r after n_iter parallel updates.

    The updates start from softmax(unary) and set r_i ~ exp(unary_i + r_{i-1} W_{i-1} + W_i r_{i+1})
    (Wang et al. 2020). Forbidden transitions count as 0 in W. O(n_iter N T^2) time, O(N T) memory.
    """
    xp = _check_batch(unary, transitions, lengths)
    _check_count("n_iter", n_iter)
    return _backend(xp).mean_field(xp, unary, transitions, lengths, n_iter)


def mean_field_loss(
    unary: Array, transitions: Array, lengths: Array, gold: Array, n_iter: int
) -> Result:
    """Mean-field loss (B,), -sum_i log r_i(gold_i) after n_iter updates, and its gradient.

    The gradient is back-propagated through all updates. Its edges have the shape of `transitions`
    and are 0 for forbidden transitions. gold: int32 (N,); tokens with -1 do not count. For CuPy
    arrays, `take_errors` names sequences of wrong, forbidden or partly known tags.
    O(n_iter N T^2) time, O(n_iter N T) memory.
    """
    xp = _check_batch(unary, transitions, lengths)
    _check_array("gold", gold, xp, _INT32, (len(unary),))
    _check_count("n_iter", n_iter)
    return _backend(xp).mean_field_loss(xp, unary, transitions, lengths, gold, n_iter)


def instruction_sets() -> tuple[str, ...]:
    """Instruction sets of this machine that the CPU kernels can use, slowest first."""
    return _backend(np).instruction_sets()


def instruction_set() -> str:
    """The instruction set that the CPU kernels use.

    Raises ValueError if the environment variable BCRF_ISA names one that this machine lacks.
    """
    return _backend(np).instruction_set()


def plan(
    operation: str,
    tags: int,
    lengths: Array,
    dtype: str = "float32",
    shared: bool = True,
    range: float = 0.0,
    *,
    allowed: Array | None = None,
    edges: Edges = "none",
    options: BregmanOptions | None = None,
) -> tuple[str, ...]:
    """The steps by which the CPU kernels compute a batch, in the order in which they are tried.

    operation: sum_product, posterior (entropy, pairs, samples), bregman, mean_field or max_product
    lengths: (B,) int32
    shared: whether all edges have one transition matrix
    range: of most tokens' tag scores, the largest minus the smallest finite one; of the CRF, the
        range of the transitions if it is smaller and no transition is forbidden
    allowed: (T, T) bool, the transitions of a scheme
    edges: the edge marginals of `sum_product` and `bregman`
    options: of `bregman`; None is the upper bound of unscaled scores

    Returns texts such as "lanes of 16, float32" and "rows, wide float32". A step computes the
    sequences that its layout takes and its numbers hold; the next one gets the others. Steps of
    float64 for float32 scores compute copies. A call measures the range: it has the plan of the
    median of 16 tokens, and that of the copies depends on the sequences that are left.

    Raises ValueError for an unknown operation or dtype, for a negative length, for options of
    another operation, and for a path in BCRF_PATH that the call lacks.
    """
    native = _backend(np)
    if operation not in native.operations():
        known = ", ".join(native.operations())
        raise ValueError(f"operation must be one of {known}, got {operation!r}")
    _check_count("tags", tags)
    _check_array("lengths", lengths, np, _INT32, (None,))
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    transitions = np.zeros((tags, tags), dtype)
    if allowed is not None:
        _check_array("allowed", allowed, np, np.dtype(bool), (tags, tags))
        transitions[~allowed] = -np.inf
    _check_edges(edges, transitions)
    if options is not None:
        if operation != "bregman":
            raise ValueError(f"options must be None for {operation}: only bregman has some")
        _check_bregman(options)
    return native.plan(operation, transitions, lengths, shared, range, edges, options)


def path_counts() -> dict[tuple[str, str, str], int]:
    """How many sequences each (operation, dtype, path) has computed on the CPU since the start.

    A sequence on the path "float64" counts for the path of its copy, too, and a lower bound for the
    sum_product of its chain. Searches (n-best lists, beams, Dijkstra) have one path and do not
    count.
    """
    return _backend(np).path_counts()


def clear_path_counts() -> None:
    """Set all path counts to 0."""
    _backend(np).clear_path_counts()


def array_module(array: Array, name: str = "the argument") -> ModuleType:
    """The module of the array, NumPy or CuPy. Does not import CuPy for a NumPy array.

    Raises TypeError with the name for anything else.
    """
    if isinstance(array, np.ndarray):
        return np
    if type(array).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy
    raise TypeError(f"{name} must be a NumPy or CuPy array, got {type(array).__name__}")


@cache
def _backend(xp: ModuleType) -> Any:
    """The kernels for the arrays of a module. A test compares their parameters with those here."""
    if xp is np:
        from . import native

        return native
    from . import cuda

    return cuda


# Checks of types and shapes, for NumPy and CuPy arrays. Each error names the argument. The checks
# do not wait for a GPU. The compiled kernels also check the contents that they use as indices.


def _check_array(name: str, array: Array, xp: ModuleType, dtype: np.dtype, *shapes: _Shape) -> None:
    """Raise TypeError for another type or dtype, ValueError for another shape or layout."""
    if not isinstance(array, xp.ndarray):
        raise TypeError(f"{name} must be a {xp.__name__} array, got {type(array).__name__}")
    if array.dtype != dtype:
        raise TypeError(f"{name} must be {dtype}, got {array.dtype}")
    found = array.shape
    if found not in shapes and not any(
        len(shape) == len(found) and all(n in (None, m) for m, n in zip(found, shape, strict=True))
        for shape in shapes
    ):
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {expected}, got {array.shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} is not C-contiguous: pass {xp.__name__}.ascontiguousarray")


def _check_output(
    name: str, array: Array, xp: ModuleType, dtype: np.dtype, *shapes: _Shape
) -> None:
    """Check an array that the kernel changes in place."""
    _check_array(name, array, xp, dtype, *shapes)
    if xp is np and not array.flags.writeable:
        raise ValueError(f"{name} is read-only, and the kernel changes it in place")


def _float_dtype(name: str, array: Array, n_axes: int) -> np.dtype:
    """Return the dtype of an array. Raise TypeError unless it is a float, and check the axes."""
    if array.dtype not in _FLOATS:
        raise TypeError(f"{name} must be float32 or float64, got {array.dtype}")
    if array.ndim != n_axes:
        raise ValueError(f"{name} must have {n_axes} axes, got shape {array.shape}")
    return array.dtype


def _check_batch(unary: Array, transitions: Array, lengths: Array) -> ModuleType:
    """Check the arrays of a batch, and return their module."""
    xp = array_module(unary, "unary")
    dtype, shape = unary.dtype, unary.shape
    # This expression has the checks below, and is several times as fast.
    if (
        type(unary) is type(transitions) is type(lengths)
        and dtype is transitions.dtype
        and (dtype is _FLOATS[0] or dtype is _FLOAT64)
        and lengths.dtype is _INT32
        and len(shape) == 2
        and shape[1]
        and transitions.shape[-2:] == (shape[1], shape[1])
        and (transitions.ndim == 2 or transitions.shape == (*shape, shape[1]))
        and lengths.ndim == 1
        and unary.flags.c_contiguous
        and transitions.flags.c_contiguous
        and lengths.flags.c_contiguous
    ):
        return xp
    dtype = _float_dtype("unary", unary, 2)
    n, t = shape
    if not t:
        raise ValueError(f"unary must have at least one tag, got shape {shape}")
    _check_array("unary", unary, xp, dtype, shape)
    _check_array("transitions", transitions, xp, dtype, (t, t), (n, t, t))
    _check_array("lengths", lengths, xp, _INT32, (None,))
    return xp


def _check_count(name: str, value: int) -> None:
    """Raise TypeError unless the value is an integer, ValueError unless it is a positive int32."""
    if not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 1 <= value <= _INT_MAX:
        raise ValueError(f"{name} must be from 1 to {_INT_MAX}, got {value}")


def _check_edges(edges: str, transitions: Array) -> None:
    """Raise ValueError for an unknown kind of edge marginals, or a sum of per-edge transitions."""
    if edges not in ("none", "sum", "each"):
        raise ValueError(f"edges must be none, sum or each, got {edges!r}")
    if edges == "sum" and transitions.ndim != 2:
        raise ValueError(
            f'edges = "sum" needs shared transitions, (T, T), got shape {transitions.shape}'
        )


def _check_bregman(options: BregmanOptions) -> None:
    """Raise ValueError naming the option of the Bregman projections that is out of range."""
    _check_count("n_iter", options.n_iter)
    if options.relaxation is not None and not 1 <= options.relaxation < 2:
        raise ValueError(f"relaxation must be in [1, 2), or None, got {options.relaxation}")
    if options.tolerance is not None and not options.tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0, or None, got {options.tolerance}")
    if options.bound not in ("upper", "lower"):
        raise ValueError(f"bound must be upper or lower, got {options.bound!r}")
    if options.unary not in UNARIES:
        raise ValueError(f"unary must be one of {', '.join(UNARIES)}, got {options.unary!r}")
    if not 0 < options.scale < float("inf"):
        raise ValueError(f"scale must be positive and finite, got {options.scale}")
