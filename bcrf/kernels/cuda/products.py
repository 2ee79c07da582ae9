"""The sums of edge marginals on a GPU, if their matrices are too large for registers."""

from typing import Any

import numpy as np

from .gpu_batch import Batch

TILE, THREADS = 32, 128
"""TILE of products.cu, and the threads of a block."""
BLOCKS = 1024
"""The blocks of a launch, about: some for each multiprocessor."""


def add_products(batch: Batch, args: dict[str, Any], real: np.dtype) -> None:
    """Add the products of the factors left and right, see products.cu, to the sums, if any."""
    if args["left"] is None:
        return
    squares = (-(-batch.tags // TILE)) ** 2
    groups = max(1, min(batch.size, BLOCKS // squares))
    batch.launch(
        *("products", "add_products", squares * groups, args),
        threads=THREADS,
        doubles=2 * TILE**2 * real.itemsize // 8 - THREADS,
        real=real,
    )
