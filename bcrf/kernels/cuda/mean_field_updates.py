"""Mean field on a GPU, and its loss with back-propagation through the updates, in two launches.

CuPy multiplies the gradients of shared transitions that registers do not hold.
"""

from types import ModuleType

from bcrf.kernels.backend import Array, Result

from .gpu_batch import DOUBLE, INT, Batch, contiguous
from .memory import within_memory
from .prepare import held_width, prepare

THREADS = 256
"""Threads of a block with 255 registers each. Float32 takes 80 without matrices in them."""


@within_memory
def mean_field(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n_iter: int
) -> Result:
    return _update(Batch(xp, unary, transitions, lengths), n_iter)


@within_memory
def mean_field_loss(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    gold: Array,
    n_iter: int,
) -> Result:
    batch = Batch(xp, unary, transitions, lengths)
    return _update(batch, n_iter, contiguous(xp, gold, INT))


def _update(batch: Batch, n_iter: int, gold: Array | None = None) -> Result:
    """Return values and marginals; with gold, losses and their gradient."""
    xp, n, tags, is_loss = batch.xp, batch.n, batch.tags, gold is not None
    width = held_width(batch)
    shape = n + batch.size, width or tags
    numbers = shape[0] * shape[1]
    kept = 0 if width else numbers
    found = prepare(
        *(batch, "sum" if is_loss and width else "none", 0),
        messages=(2 * numbers, batch.unary.dtype),
    )
    r = batch.empty(n_iter + 1 if is_loss else 1, *shape)
    delta = batch.empty(n_iter + 1 if kept else 1, *shape) if is_loss else None
    value, unary = batch.empty(batch.size), batch.empty(n, tags)
    each = batch.empty(n, tags, tags) if is_loss and not batch.shared else None
    edges = batch.empty(tags, tags) if is_loss and width else each
    batch.launch(
        *("mean_field", "mean_field", batch.size, batch.unary, batch.transitions, found.matrices),
        *(found.transposed, found.starts, batch.lengths, gold, r, delta),
        *(found.parts["messages"], value, unary, each, found.sums),
        *(edges if width else None, found.counter, n_iter, numbers, kept, tags, batch.stride),
        threads=THREADS if width or batch.unary.dtype == DOUBLE else 2 * THREADS,
        width=width,
    )
    if delta is not None and edges is None:
        # Each sequence ends with a row of zeros, so no product crosses from one to another.
        heads, tails = (x.reshape(-1, tags) for x in (r[:-1], delta[1:]))
        edges = heads[:-1].T @ tails[1:] + tails[:-1].T @ heads[1:]
        edges = xp.where(batch.transitions > -xp.inf, edges, 0)
    return Result(value, unary, edges)
