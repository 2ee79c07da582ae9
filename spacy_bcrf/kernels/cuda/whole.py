"""Inference with one block a sequence: log-partitions, marginals and losses in three launches.

The kernels keep the transitions of a tag in registers, so they take few tags. A few long sequences
would leave most of the GPU idle, so other kernels take these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacy_bcrf.kernels.backend import UNARIES, Array, BregmanOptions, Edges, Result

from .batch import WARP, Batch
from .errors import error_flag
from .segments import segment_length

SLOT_THREADS = 128  # THREADS of bregman_chain.cu

COLUMN_BYTES = 256
"""Largest column of transitions in registers: 64 tags in float32, 32 in float64."""


def is_whole(batch: Batch, real: Any = None) -> bool:
    """Return whether the kernels of this module suit the batch. real: dtype of the inner loops."""
    column = width(batch.tags) * np.dtype(real or batch.unary.dtype).itemsize
    return batch.n > 0 and column <= COLUMN_BYTES and not segment_length(batch)


def width(tags: int) -> int:
    """Return the number of tags, rounded up to a multiple of 8."""
    return -(-tags // 8) * 8


class Prepared(NamedTuple):
    """What all sequences of a batch share, see prepare.cu."""

    starts: Array
    failed: Array
    counter: Array
    sums: Array | None
    matrices: Array
    transposed: Array | None
    edge_shifts: Array
    edge_lows: Array


def prepare(batch: Batch, edges: Edges, scale: float = 1.0, real: Any = None) -> Prepared:
    """Launch `prepare`, which replaces a dozen array operations."""
    tags, shape = batch.tags, batch.transitions.shape
    rows = batch.transitions.size // tags**2
    found = Prepared(
        starts=batch.empty(batch.size, dtype="int64"),
        failed=batch.empty(batch.size, dtype="int32"),
        counter=batch.empty(1, dtype="int32"),
        sums=batch.empty(tags, tags, dtype="float64") if edges == "sum" else None,
        matrices=batch.empty(*shape, dtype=real),
        transposed=batch.empty(*shape, dtype=real) if batch.shared else None,
        edge_shifts=batch.empty(rows, dtype="float64"),
        edge_lows=batch.empty(rows, dtype="float64"),
    )
    batch.launch(
        *("prepare", "prepare", 1 + min(rows, 1 << 15), batch.lengths, found.starts),
        *(found.failed, found.counter, found.sums, batch.transitions, found.matrices),
        *(found.transposed, found.edge_shifts, found.edge_lows, batch.size, np.int64(rows)),
        *(tags, scale),
        threads=256,
        real=real,
    )
    return found


def gold_arrays(batch: Batch, gold: Array | None) -> tuple[Array | None, Array | None]:
    """Return gold as tags, int32 (N,), or as allowed tags, int8 (N, T). The other one is None."""
    if gold is None:
        return None, None
    if gold.dtype == bool:
        return None, batch.xp.ascontiguousarray(gold).view("int8")
    return batch.xp.ascontiguousarray(gold, dtype="int32"), None


def sum_product(batch: Batch, edges: Edges, marginals: bool, gold: Array | None = None) -> Result:
    """Return log-partitions and marginals; with gold, losses and their gradient."""
    found = prepare(batch, edges)
    n, tags, size = batch.n, batch.tags, batch.size
    unary = batch.empty(n, tags) if marginals else None
    each = batch.empty(n, tags, tags) if edges == "each" else None
    result = batch.empty(tags, tags) if edges == "sum" else each
    value = batch.empty(size)
    # `crf` keeps the forward weights here, and `finish` the logarithms of failed sequences.
    workspace = batch.empty(n, tags, dtype="float64")
    parts = batch.empty(2, size, dtype="float64")
    unary_type = batch.unary.dtype
    annotation = gold_arrays(batch, gold)
    columns = width(tags)
    batch.launch(
        *("crf", "crf", size, batch.unary, found.matrices, found.transposed, found.edge_shifts),
        *(found.starts, batch.lengths, *annotation, workspace.ravel().view(unary_type)),
        *(batch.empty(n), batch.empty(n), unary, each, found.sums, parts, found.failed),
        *(size, tags),
        threads=-(-columns // WARP) * WARP,
        doubles=3 * columns,
        width=columns,
    )
    batch.launch(
        *("log_space", "finish", size, batch.unary, batch.transitions, found.starts),
        *(batch.lengths, *annotation, parts, found.failed, workspace, value, unary, each),
        *(found.sums, result if found.sums is not None else None, error_flag(batch)),
        *(found.counter, size, tags, batch.stride),
        doubles=2 * tags,
    )
    return Result(value, unary, result)


def bregman(
    batch: Batch, options: BregmanOptions, edges: Edges, real: np.dtype, gold: Array | None = None
) -> Result:
    """Return the bounds of B(w) and its gradient; with gold, losses and their gradient."""
    found = prepare(batch, edges, options.scale, real)
    n, tags, size, columns = batch.n, batch.tags, batch.size, width(batch.tags)
    unary, value = batch.empty(n, tags), batch.empty(size)
    each = batch.empty(n, tags, tags) if edges == "each" else None
    result = batch.empty(tags, tags) if edges == "sum" else each
    # Long sequences have their factors here, and failed sequences have logarithms.
    row = max((3 * columns + 1) * real.itemsize // 8 + 1, 3 * tags)
    workspace = batch.empty(row * n, dtype="float64")
    parts = batch.empty(2, size, dtype="float64")
    annotation = gold_arrays(batch, gold)
    numbers = (
        *(options.n_iter, float(options.relaxation or 0)),
        -1.0 if options.tolerance is None else float(options.tolerance),
        *(UNARIES.index(options.unary), int(options.bound == "lower"), float(options.scale)),
    )
    capacity = factor_capacity(batch, real.itemsize)
    batch.launch(
        *("bregman_chain", "bregman_chain", size, batch.unary, found.matrices, found.transposed),
        *(found.edge_shifts, found.edge_lows, found.starts, batch.lengths, *annotation),
        *(workspace.view(real), unary, each, found.sums, parts, found.failed),
        *(*numbers, capacity, size, np.int64(n), tags),
        threads=SLOT_THREADS,
        doubles=_factor_bytes(columns, real.itemsize, capacity) // 8,
        real=real,
        width=columns,
    )
    batch.launch(
        *("log_space_bregman", "finish", size, batch.unary, batch.transitions, found.starts),
        *(batch.lengths, *annotation, parts, found.failed, found.edge_shifts, workspace),
        *(value, unary, each, found.sums, result if found.sums is not None else None),
        *(error_flag(batch), found.counter, *numbers, size, np.int64(n), tags, batch.stride),
        doubles=2 * tags,
        real=real,
    )
    return Result(value, unary, result)


def factor_capacity(batch: Batch, itemsize: int) -> int:
    """Return how many tokens of a sequence have their factors in shared memory.

    The host does not know the longest sequence. Four times the mean covers most corpora, and leaves
    room for several blocks.
    """
    columns = width(batch.tags)
    most = batch.device.shared_memory - 8 * SLOT_THREADS - _factor_bytes(columns, itemsize, 0)
    token = (3 * columns + 1) * itemsize
    return max(0, min(4 * -(-batch.n // batch.size), most // token))


def _factor_bytes(columns: int, itemsize: int, capacity: int) -> int:
    """Return the shared memory of `bregman_chain`, rounded up to doubles."""
    numbers = 2 * columns + (3 * columns + 1) * capacity
    return 8 * (SLOT_THREADS // WARP + -(-numbers * itemsize // 8))
