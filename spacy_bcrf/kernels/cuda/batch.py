"""A ragged batch of CuPy arrays, and the launches over it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from spacy_bcrf.kernels import Array

from . import device

WARP = 32
MAX_THREADS = 1024
STAGE = 16  # of scan.cuh


class Batch:
    """Unary scores (N, T), transitions (T, T) or (N, T, T) and lengths (B,), contiguous, on one
    device. Nothing here waits for the device: sizes are those of the arrays."""

    def __init__(self, xp: Any, unary: Array, transitions: Array, lengths: Array) -> None:
        self.xp = xp
        self.unary = xp.ascontiguousarray(unary)
        self.transitions = xp.ascontiguousarray(transitions, dtype=unary.dtype)
        self.lengths = xp.ascontiguousarray(lengths, dtype="int32")
        self.n, self.tags = unary.shape
        self.size = len(lengths)
        self.shared = transitions.ndim == 2
        self.device = device.find(unary, transitions, lengths)

    @property
    def stride(self) -> np.int64:
        """How far the transitions of an edge are from those of the next."""
        return np.int64(0 if self.shared else self.tags**2)

    @cached_property
    def starts(self) -> Array:
        """int64 (B,) the first token of each sequence."""
        return (self.lengths.cumsum(dtype="int64") - self.lengths).astype("int64")

    @cached_property
    def segment_ids(self) -> Array:
        """int32 (N,) the sequence of each token."""
        stops = self.lengths.cumsum(dtype="int64")
        return self.xp.searchsorted(stops, self.xp.arange(self.n), side="right").astype("int32")

    @cached_property
    def longest_first(self) -> tuple[Array, Array]:
        """Starts and lengths of the sequences. The long ones take longest, so they start first, if
        not all run at once anyway."""
        if self.size <= self.device.multiprocessors:
            return self.starts, self.lengths
        order = self.xp.argsort(-self.lengths)
        return self.starts[order], self.lengths[order]

    def walk_memory(self) -> tuple[bool, int]:
        """Whether transitions fit into shared memory, and how much `walk` of scan.cuh takes then,
        in doubles."""
        size = self.unary.dtype.itemsize
        rows = (2 + STAGE) * self.tags * size
        matrix = self.tags * (self.tags | 1) * size
        fits = self.shared and rows + matrix + 8 * MAX_THREADS <= self.device.shared_memory
        return fits, (rows + matrix * fits) // 8 + 1

    def empty(self, *shape: int, dtype: Any = None) -> Array:
        return self.xp.empty(shape, dtype=dtype or self.unary.dtype)

    def zeros(self, *shape: int, dtype: Any = None) -> Array:
        return self.xp.zeros(shape, dtype=dtype or self.unary.dtype)

    def launch(
        self,
        file: str,
        kernel: str,
        grid: int | tuple[int, ...],
        *args: Any,
        threads: int = 0,
        doubles: int = 0,
        real: Any = None,
    ) -> None:
        """Run a kernel with a thread a tag, or `threads`, and room for `doubles` and one for each
        thread in shared memory. real: dtype of its inner loops, by default that of the scores."""
        grid = grid if isinstance(grid, tuple) else (grid,)
        if 0 in grid:
            return
        threads = min(-(-(threads or self.tags) // WARP) * WARP, MAX_THREADS)
        types = str(self.unary.dtype), str(np.dtype(real or self.unary.dtype))
        memory = 8 * (doubles + threads)
        if memory > self.device.shared_memory:
            raise ValueError(
                f"{kernel} with {self.tags} tags in {types[1]} needs {memory} bytes of shared "
                f"memory, and this GPU gives a block {self.device.shared_memory}: use fewer tags, "
                "or NumPy arrays"
            )
        self.device.launch(device.Launch(file, kernel, types, grid, threads, memory, args))
