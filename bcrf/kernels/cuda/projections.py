"""Iterative Bregman projections on a GPU, in three launches, four with many tags."""

from types import ModuleType

import numpy as np

from bcrf.kernels.backend import UNARIES, Array, BregmanOptions, Edges, Result

from .gpu_batch import DOUBLE, WARP, Batch
from .memory import within_memory
from .prepare import as_result, gold_arrays, held_width, prepare, result_arrays
from .products import add_products

THREADS = 128
"""THREADS of projections.cuh: the threads of a block with matrices in registers."""


@within_memory
def bregman(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    options: BregmanOptions,
    edges: Edges,
) -> Result:
    return project(Batch(xp, unary, transitions, lengths), options, edges)


@within_memory
def bregman_loss(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    gold: Array,
    options: BregmanOptions,
) -> Result:
    batch = Batch(xp, unary, transitions, lengths)
    return project(batch, options, "sum" if batch.shared else "each", gold)


def inner_dtype(batch: Batch, options: BregmanOptions) -> np.dtype:
    """Return the dtype of the projections. Sharpened scores exceed the range of float32."""
    return DOUBLE if options.scale > 1 else batch.unary.dtype


def project(
    batch: Batch, options: BregmanOptions, edges: Edges, gold: Array | None = None
) -> Result:
    """Return the bounds of B(w) and its gradient; with gold, losses and their gradient."""
    real = inner_dtype(batch, options)
    width = held_width(batch, real)
    n, tags, size, columns = batch.n, batch.tags, batch.size, width or batch.tags
    # Long sequences have their factors here, and failed sequences have logarithms.
    row = max((3 * columns + 1) * real.itemsize // 8 + 1, 3 * tags + 1)
    # Factors of edge marginals; of both passes, if gold may be partial.
    passes = (1 if gold is None else 2) if edges == "sum" and not width else 0
    args = prepare(
        *(batch, edges, options.scale, real),
        workspace=(row * n, DOUBLE),
        factors=(n * (2 + passes) * tags + n if passes else 0, real),
        left=(n * passes * tags, real),
    )
    args |= result_arrays(batch, edges) | gold_arrays(batch, gold)
    if args["left"]:
        capacity, right = 0, args["factors"].address + 2 * n * tags * real.itemsize
        args["right"] = args["factors"]._replace(address=right)
    else:
        workspace, capacity = args["workspace"], factor_capacity(batch, width, real)
        args["factors"] = workspace and workspace.view(real)
    args |= {
        "n_iter": options.n_iter,
        "relaxation": float(options.relaxation or 0),
        "tolerance": -1.0 if options.tolerance is None else float(options.tolerance),
        "rule": UNARIES.index(options.unary),
        "lower": int(options.bound == "lower"),
        "scale": float(options.scale),
        "capacity": capacity,
    }
    batch.launch(
        *("projections", "bregman", size, args),
        threads=THREADS if width else columns,
        doubles=_factor_bytes(columns, width, real, capacity) // 8,
        real=real,
        width=width,
    )
    add_products(batch, args, real)
    batch.launch("projections_log", "finish", size, args, doubles=2 * tags, real=real)
    return as_result(args)


def factor_capacity(batch: Batch, width: int, real: np.dtype) -> int:
    """Return how many tokens of a sequence have their factors in shared memory.

    The host may not know the longest sequence. Four times the mean covers most corpora. Two blocks
    share a multiprocessor, which has the memory of a block and 1 KiB; CUDA takes 1 KiB of each.
    width: see `held_width`.
    """
    columns = width or batch.tags
    threads = THREADS if width else -(-columns // WARP) * WARP
    most = (
        batch.device.shared_memory // 2
        - 1024
        - 8 * threads
        - _factor_bytes(columns, width, real, 0)
    )
    token = (3 * columns + 1) * real.itemsize
    longest = batch.steps or 4 * -(-batch.n // max(batch.size, 1))
    return max(0, min(longest, most // token))


def _factor_bytes(columns: int, width: int, real: np.dtype, capacity: int) -> int:
    """Return the shared memory of `bregman`, rounded up to doubles."""
    teams = THREADS // (-(-width // WARP) * WARP) if width else 1
    numbers = 2 * teams * columns + (3 * columns + 1) * capacity
    return 8 * -(-numbers * real.itemsize // 8)
