"""A ragged batch of CuPy arrays, and the kernel launches over it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from bcrf.kernels.backend import Array
from bcrf.lazy import lazy

from . import device

WARP = 32
MAX_THREADS = 1024


class Batch:
    """A ragged batch on one device, with contiguous arrays.

    unary: (N, T). transitions: (T, T) or (N, T, T). lengths: (B,).

    No method waits for the device. Sizes come from the shapes of the arrays.
    """

    def __init__(self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array) -> None:
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
        """The distance between the transitions of neighboring edges; 0 if they are shared."""
        return np.int64(0 if self.shared else self.tags**2)

    @lazy
    def starts(self) -> Array:
        """The first token of each sequence, int64 (B,)."""
        return (self.lengths.cumsum(dtype="int64") - self.lengths).astype("int64")

    @lazy
    def sequence_ids(self) -> Array:
        """The sequence of each token, int32 (N,)."""
        stops = self.lengths.cumsum(dtype="int64")
        return self.xp.searchsorted(stops, self.xp.arange(self.n), side="right").astype("int32")

    def empty(self, *shape: int, dtype: Any = None) -> Array:
        """Create an uninitialized array, by default of the scores' dtype."""
        return self.xp.empty(shape, dtype=dtype or self.unary.dtype)

    def zeros(self, *shape: int, dtype: Any = None) -> Array:
        """Create an array of zeros, by default of the scores' dtype."""
        return self.xp.zeros(shape, dtype=dtype or self.unary.dtype)

    def launch(
        self,
        file: str,
        kernel: str,
        blocks: int,
        *args: Any,
        threads: int = 0,
        doubles: int = 0,
        real: Any = None,
        width: int = 0,
    ) -> None:
        """Launch a kernel of `file`.cu over so many blocks.

        threads: threads a block, by default one a tag. doubles: shared memory, besides one double
        for each thread. real: dtype of the inner loops, by default the dtype of the scores.
        width: see `device.Launch`.

        Raises ValueError if the GPU has too little shared memory for a block.
        """
        if blocks == 0:
            return
        threads = min(-(-(threads or self.tags) // WARP) * WARP, MAX_THREADS)
        types = str(self.unary.dtype), str(np.dtype(real or self.unary.dtype))
        memory = 8 * (doubles + threads)
        if memory > self.device.shared_memory:
            raise ValueError(
                f"kernel {kernel} needs {memory} bytes of shared memory for {self.tags} tags in "
                f"{types[1]}, but this GPU gives a block {self.device.shared_memory}: use fewer "
                "tags, or NumPy arrays"
            )
        self.device.launch(device.Launch(file, kernel, types, blocks, threads, memory, args, width))
