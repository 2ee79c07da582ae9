"""Mean field on a GPU, and its loss with back-propagation through the updates.

Two launches, where one block runs all passes over a sequence. A launch for each pass, with several
blocks for each sequence, if few blocks would have much to do. CuPy then multiplies the gradients
of shared transitions, and the messages too if registers do not hold the transitions.
"""

from types import ModuleType
from typing import Any

from bcrf.kernels.backend import Array, Edges, Result

from .gpu_batch import DOUBLE, Batch
from .memory import within_memory
from .prepare import as_result, gold_arrays, held_width, prepare, result_arrays

THREADS = 256
"""Threads of a block with 255 registers each. Float32 takes 80 without matrices in them."""

ONE_BLOCK = 1 << 14
"""Most products of a message pass over a sequence for one block, its tokens times squared tags.

With one block a sequence, an H100 took 378 us for marginals of 64 x 30 x 17 (8,670 products), and
2,053 us for 64 x 200 x 17 (57,800), where several blocks had taken 1,700 us. The threshold is a
guess between the two: no GPU has measured where launches become faster.
"""
MANY, TOKENS = 512, 16
"""Sequences whose blocks fill a GPU, and tokens of a block with a launch for each pass."""


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
    return _update(batch, n_iter, gold)


def count_chunks(batch: Batch) -> int:
    """Return the number of blocks for each sequence. More than 1 need a launch for each pass.

    The host may not know the longest sequence, so the mean length decides.
    """
    length = -(-batch.n // max(batch.size, 1))
    is_held = held_width(batch) > 0 or not batch.shared
    if length * batch.tags**2 <= ONE_BLOCK or (batch.size >= MANY and is_held):
        return 1
    return max(2, -(-length // TOKENS))


def _update(batch: Batch, n_iter: int, gold: Array | None = None) -> Result:
    """Return values and marginals; with gold, losses and their gradient."""
    xp, n, tags, is_loss = batch.xp, batch.n, batch.tags, gold is not None
    width, chunks = held_width(batch), count_chunks(batch)
    shape = n + batch.size, width or tags
    numbers = shape[0] * shape[1]
    has_sums = is_loss and width > 0 and chunks == 1
    edges: Edges = "sum" if has_sums else "none" if batch.shared or not is_loss else "each"
    args = prepare(batch, edges, 0, parts=(2 * batch.size * chunks, DOUBLE))
    args |= result_arrays(batch, edges) | gold_arrays(batch, gold)
    # A pass of several blocks reads iterates that no other block may overwrite.
    iterates = n_iter + 1 if is_loss else min(2, chunks)
    kept = numbers if is_loss and not has_sums else 0
    r, messages = batch.empty(iterates, *shape), batch.empty(2, *shape)
    delta = batch.empty(n_iter + 1 if kept else 1, *shape) if is_loss else None
    args |= {"r": r, "delta": delta, "messages": messages, "numbers": numbers, "kept": kept}
    args |= {"n_iter": n_iter, "iterates": iterates, "chunks": chunks}
    w: Any = None
    if chunks > 1 and batch.shared and not width:
        w = xp.where(batch.transitions > -xp.inf, batch.transitions, 0)
    stop = 2 * n_iter + 2 if is_loss else n_iter + 3
    for start in range(0, stop, stop if chunks == 1 else 1):
        if w is not None:
            # The rows whose messages the pass takes, see `mean_field` of the .cu file.
            rows = r[(start - 1) % iterates] if 0 < start < n_iter + 2 else None
            if delta is not None and start > n_iter:
                rows = delta[2 * n_iter + 2 - start] if start > n_iter + 1 else None
            # Each sequence ends with a row of zeros, so no product crosses from one to another.
            if rows is not None:
                xp.matmul(rows[:-1], w, out=messages[0, 1:])
                xp.matmul(rows[1:], w.T, out=messages[1, :-1])
        args |= {"start": start, "stop": stop if chunks == 1 else start + 1, "sent": w is not None}
        batch.launch(
            *("mean_field_updates", "mean_field", batch.size * chunks, args),
            threads=THREADS if width or batch.unary.dtype == DOUBLE else 2 * THREADS,
            width=width,
        )
    if delta is not None and batch.shared and not has_sums:
        heads, tails = (x.reshape(-1, shape[1]) for x in (r[:-1], delta[1:]))
        total = heads[:-1].T @ tails[1:] + tails[:-1].T @ heads[1:]
        args["edges"] = xp.where(batch.transitions > -xp.inf, total[:tags, :tags], 0)
    return as_result(args)
