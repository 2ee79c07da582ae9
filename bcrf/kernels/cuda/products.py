"""The sums of edge marginals on a GPU, if their matrices are too large for registers."""

import numpy as np

from .device import Part
from .gpu_batch import Batch
from .prepare import Prepared

TILE, THREADS = 32, 128
"""TILE of products.cu, and the threads of a block."""
BLOCKS = 1024
"""The blocks of a launch, about: some for each multiprocessor."""


def add_products(
    batch: Batch, found: Prepared, left: Part | None, right: Part | None, real: np.dtype
) -> None:
    """Add the products of factors, see products.cu, to the sums; nothing without factors."""
    if left is None or right is None:
        return
    squares = (-(-batch.tags // TILE)) ** 2
    groups = max(1, min(batch.size, BLOCKS // squares))
    batch.launch(
        *("products", "add_products", squares * groups, found.matrices, left, right),
        *(found.starts, batch.lengths, found.passes, found.sums, batch.size, batch.tags),
        np.int64(batch.n * batch.tags),
        threads=THREADS,
        doubles=2 * TILE**2 * real.itemsize // 8 - THREADS,
        real=real,
    )
