"""Kernel inputs of a batch: what its sequences share, and its gold annotation."""

from typing import Any

import numpy as np

from bcrf.kernels.backend import Array, Edges, Result

from .errors import error_flag
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


def prepare(
    batch: Batch,
    edges: Edges,
    scale: float = 1.0,
    real: np.dtype | None = None,
    **parts: tuple[int, np.dtype],
) -> dict[str, Any]:
    """Launch `prepare`, which replaces a dozen array operations.

    Return arguments of the next kernels: what all sequences share, see prepare.cu, `values` of both
    passes, and `parts`, further scratch memory, see `Batch.scratch`. scale: 0 for the transitions
    themselves, 0 where they are forbidden.
    """
    tags, cells, real = batch.tags, batch.transitions.size, real or batch.unary.dtype
    rows = cells // tags**2
    args = batch.scratch(
        starts=(0 if batch.steps else batch.size, LONG),
        passes=(batch.size, INT),
        counter=(1, INT),
        values=(2 * batch.size, DOUBLE),
        transposed=(cells if batch.shared else 0, real),
        edge_shifts=(rows, DOUBLE),
        edge_lows=(rows, DOUBLE),
        matrices=(cells, real),
        sums=(tags**2 if edges == "sum" else 0, DOUBLE),
        **parts,
    )
    batch.launch(
        *("prepare", "prepare", 1 + min(rows, 1 << 15), args | {"rows": rows, "scale": scale}),
        threads=256,
        real=real,
    )
    return args | {"starts": args["starts"] or batch.starts}


def result_arrays(batch: Batch, edges: Edges, marginals: bool = True) -> dict[str, Any]:
    """Return arguments: the arrays of a `Result`, and of what a kernel may have besides."""
    # Without a sequence, no kernel sets the sums.
    create = batch.empty if batch.size else batch.zeros
    n, tags = batch.n, batch.tags
    return {
        "value": batch.empty(batch.size),
        "marginals": batch.empty(n, tags) if marginals else None,
        "each": batch.empty(n, tags, tags) if edges == "each" else None,
        "edges": create(tags, tags) if edges == "sum" else None,
        "errors": error_flag(batch),
        **{"pairs": None, "heads": None, "tails": None, "n_pairs": 0, "entropies": False},
    }


def as_result(args: dict[str, Any]) -> Result:
    """Return the result of the kernels that have these arguments."""
    edges = args["edges"] if args["each"] is None else args["each"]
    return Result(args["value"], args["marginals"], edges)


def gold_arrays(batch: Batch, gold: Array | None) -> dict[str, Array | None]:
    """Return arguments: gold as tags, int32 (N,), or as allowed tags, int8 (N, T), or neither."""
    if gold is not None and gold.dtype == bool:
        allowed = contiguous(batch.xp, gold, gold.dtype).view(BYTE)
        return {"gold": None, "allowed": allowed}
    return {"gold": None if gold is None else contiguous(batch.xp, gold, INT), "allowed": None}
