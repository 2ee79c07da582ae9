"""Kernel inputs of a batch: what its sequences share, and its gold annotation."""

from typing import Any, NamedTuple

import numpy as np

from bcrf.kernels.backend import Array, Edges

from .device import Part
from .gpu_batch import BYTE, DOUBLE, INT, LONG, Batch, contiguous

COLUMN_BYTES = 256
"""Largest column of transitions in registers: 64 tags in float32, 32 in float64."""


def held_width(batch: Batch, real: np.dtype | None = None) -> int:
    """Return the width of the matrices that threads hold in registers, or 0 if they hold none.

    Registers take shared transitions of few tags. real: dtype of the inner loops.
    """
    width = -(-batch.tags // 8) * 8
    fits = width * (real or batch.unary.dtype).itemsize <= COLUMN_BYTES
    return width if batch.n > 0 and batch.shared and fits else 0


class Prepared(NamedTuple):
    """What all sequences of a batch share, see prepare.cu.

    passes: 0 for sequences that exceed the range of the inner loops. parts: further scratch.
    """

    starts: Part
    passes: Part
    counter: Part
    values: Part
    transposed: Part | None
    edge_shifts: Part
    edge_lows: Part
    matrices: Part
    sums: Part | None
    parts: dict[str, Part]


def prepare(
    batch: Batch,
    edges: Edges,
    scale: float = 1.0,
    real: np.dtype | None = None,
    **parts: tuple[int, np.dtype],
) -> Prepared:
    """Launch `prepare`, which replaces a dozen array operations.

    scale: 0 for the transitions themselves, 0 where they are forbidden.
    parts: further scratch memory, see `Batch.scratch`.
    """
    tags, cells, real = batch.tags, batch.transitions.size, real or batch.unary.dtype
    rows = cells // tags**2
    scratch = batch.scratch(
        starts=(0 if batch.steps else batch.size, LONG),
        passes=(batch.size, INT),
        counter=(1, INT),
        values=(2 * batch.size, DOUBLE),
        transposed=(cells if batch.shared else 0, real),
        edge_shifts=(rows, DOUBLE),
        edge_lows=(rows, DOUBLE),
        matrices=(cells, real),
        sums=(tags**2, DOUBLE),
        **parts,
    )
    shared: dict[str, Any] = {name: scratch.pop(name) for name in Prepared._fields[:-1]}
    if not batch.shared:
        shared["transposed"] = None
    if edges != "sum":
        shared["sums"] = None
    computed = None if batch.steps else shared["starts"]
    shared["starts"] = computed or batch.starts
    found = Prepared(**shared, parts=scratch)
    batch.launch(
        *("prepare", "prepare", 1 + min(rows, 1 << 15), batch.lengths, computed),
        *(found.passes, found.counter, found.sums, batch.transitions, found.matrices),
        *(found.transposed, found.edge_shifts, found.edge_lows, batch.size, rows, tags, scale),
        threads=256,
        real=real,
    )
    return found


def edge_arrays(batch: Batch, edges: Edges) -> tuple[Array | None, Array | None]:
    """Return arrays for the marginals of each edge and for their sums, None if not asked for."""
    each = batch.empty(batch.n, batch.tags, batch.tags) if edges == "each" else None
    # Without a sequence, no kernel sets the sums.
    create = batch.empty if batch.size else batch.zeros
    return each, create(batch.tags, batch.tags) if edges == "sum" else None


def gold_arrays(batch: Batch, gold: Array | None) -> tuple[Array | None, Array | None]:
    """Return gold as tags, int32 (N,), or as allowed tags, int8 (N, T). The other one is None."""
    if gold is None:
        return None, None
    if gold.dtype == bool:
        return None, contiguous(batch.xp, gold, gold.dtype).view(BYTE)
    return contiguous(batch.xp, gold, INT), None
