"""What all sequences of a batch share, and what is known of their gold annotation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bcrf.kernels.backend import Array, Edges

from .gpu_batch import Batch

COLUMN_BYTES = 256
"""Largest column of transitions in registers: 64 tags in float32, 32 in float64."""


def held_width(batch: Batch, real: Any = None) -> int:
    """Return the width of the matrices that threads hold in registers, or 0 if they hold none.

    Registers take shared transitions of few tags. real: dtype of the inner loops.
    """
    width = -(-batch.tags // 8) * 8
    fits = width * np.dtype(real or batch.unary.dtype).itemsize <= COLUMN_BYTES
    return width if batch.n > 0 and batch.shared and fits else 0


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
