"""The forward-backward algorithm of the CRF on a GPU, in three launches, four with many tags."""

from types import ModuleType

from bcrf.kernels.backend import Array, Edges, Result

from .gpu_batch import DOUBLE, Batch
from .memory import within_memory
from .prepare import as_result, gold_arrays, held_width, prepare, result_arrays
from .products import add_products


@within_memory
def sum_product(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    edges: Edges,
    marginals: bool,
) -> Result:
    return forward_backward(Batch(xp, unary, transitions, lengths), edges, marginals)


@within_memory
def sum_product_loss(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, gold: Array
) -> Result:
    batch = Batch(xp, unary, transitions, lengths)
    return forward_backward(batch, "sum" if batch.shared else "each", True, gold=gold)


@within_memory
def entropy(xp: ModuleType, unary: Array, transitions: Array, lengths: Array) -> Array:
    batch = Batch(xp, unary, transitions, lengths)
    return forward_backward(batch, "none", False, entropies=True).value


@within_memory
def pair_marginals(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    batch = Batch(xp, unary, transitions, lengths)
    heads, tails = (xp.ascontiguousarray(tags, dtype="int32") for tags in (heads, tails))
    pairs = batch.empty(batch.n, len(heads))
    found = forward_backward(batch, "none", True, pairs=(pairs, heads, tails))
    return found.unary, pairs


def forward_backward(
    batch: Batch,
    edges: Edges,
    marginals: bool,
    gold: Array | None = None,
    pairs: tuple[Array, Array, Array] | None = None,
    entropies: bool = False,
) -> Result:
    """Return log-partitions and marginals; with gold, losses and their gradient.

    pairs: the array (N, M) to set, heads and tails. entropies: return these, not log-partitions.
    """
    has_edges = edges == "each" or pairs is not None or entropies
    width = 0 if has_edges else held_width(batch)
    n, tags, columns = batch.n, batch.tags, width or batch.tags
    real = batch.unary.dtype
    # Factors of edge marginals; of both passes, if gold may be partial.
    factors = n * tags * (1 if gold is None else 2) if edges == "sum" and not width else 0
    # `forward_backward` keeps the forward rows in the workspace, and `finish` the logarithms of
    # sequences that exceed its range.
    args = prepare(
        *(batch, edges),
        workspace=(n * tags, DOUBLE),
        tops=(n, real),
        totals=(n, DOUBLE),
        left=(factors, real),
        right=(factors, real),
    )
    args |= result_arrays(batch, edges, marginals) | gold_arrays(batch, gold)
    if pairs:
        args |= {"pairs": pairs[0], "heads": pairs[1], "tails": pairs[2], "n_pairs": len(pairs[1])}
    workspace = args["workspace"]
    args |= {"entropies": entropies, "alpha": args["left"] or (workspace and workspace.view(real))}
    batch.launch(
        *("forward_backward", "forward_backward", batch.size, args),
        threads=columns,
        doubles=3 * columns,
        width=width,
    )
    add_products(batch, args, real)
    batch.launch("forward_backward_log", "finish", batch.size, args, doubles=3 * tags)
    return as_result(args)
