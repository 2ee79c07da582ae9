"""A ragged batch of CuPy arrays, and the kernel launches over it."""

from functools import lru_cache
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np

from bcrf.kernels.backend import Array
from bcrf.lazy import lazy

from . import device

ALIGNED = 256
"""Parts of scratch memory start at multiples of this many bytes."""
NAMES = {np.dtype(name): name for name in ("float32", "float64")}
BYTE, INT, LONG, DOUBLE = (np.dtype(name) for name in ("int8", "int32", "int64", "float64"))
WARP = 32
MAX_THREADS = 1024


class Batch:
    """A ragged batch on one device, with contiguous arrays.

    unary: (N, T). transitions: (T, T) or (N, T, T). lengths: (B,).

    steps: the rows of each sequence, if `starts` are multiples of it; 0 if a sequence has as many
        rows as tokens.

    No method waits for the device. Sizes come from the shapes of the arrays.
    """

    steps = 0

    def __init__(self, xp: ModuleType, unary: Array, transitions: Array, lengths: Array) -> None:
        self.xp = xp
        self.unary = contiguous(xp, unary, unary.dtype)
        self.transitions = contiguous(xp, transitions, unary.dtype)
        self.lengths = contiguous(xp, lengths, INT)
        self.n, self.tags = unary.shape
        self.size = len(lengths)
        self.shared = transitions.ndim == 2
        self.device = device.find(unary)

    @lazy
    def starts(self) -> Array:
        """The first token of each sequence, int64 (B,)."""
        return (self.lengths.cumsum(dtype="int64") - self.lengths).astype("int64")

    @lazy
    def sequence_ids(self) -> Array:
        """The sequence of each token, int64 (N,)."""
        stops = self.lengths.cumsum(dtype="int64")
        return self.xp.searchsorted(stops, self.xp.arange(self.n), side="right")

    def empty(self, *shape: int, dtype: Any = None) -> Array:
        """Create an uninitialized array, by default of the scores' dtype."""
        return self.xp.empty(shape, dtype=dtype or self.unary.dtype)

    def zeros(self, *shape: int, dtype: Any = None) -> Array:
        """Create an array of zeros, by default of the scores' dtype."""
        return self.xp.zeros(shape, dtype=dtype or self.unary.dtype)

    def allocate(self, size: int) -> tuple[Any, int]:
        """Return uninitialized bytes, and their address."""
        memory = self.device.empty(self.xp, size)
        return memory, self.device.address(memory)

    def scratch(self, **numbers: tuple[int, np.dtype]) -> dict[str, Any]:
        """Return uninitialized memory for kernels: a number of values of a dtype, by name.

        None, a null pointer, for no values.
        """
        offsets, total = _layout(tuple(numbers.values()))
        memory, start = self.allocate(total)
        return {
            name: device.Part(memory, start + offset, *of) if of[0] else None
            for (name, of), offset in zip(numbers.items(), offsets, strict=True)
        }

    def launch(
        self,
        file: str,
        kernel: str,
        blocks: int,
        args: dict[str, Any],
        *,
        threads: int = 0,
        doubles: int = 0,
        real: np.dtype | None = None,
        width: int = 0,
    ) -> None:
        """Launch a kernel of `file`.cu over a number of blocks.

        args: values of the fields of its struct, by name; further ones are ignored. The fields of
        `Batch` in block.cuh, except for `starts`, come from this batch. threads: threads a block,
        by default one a tag. doubles: shared memory, besides one double for each thread. real:
        dtype of the inner loops, by default the dtype of the scores. width: see `device.Launch`.

        Raises ValueError if the GPU has too little shared memory for a block.
        """
        if blocks == 0:
            return
        threads = min(-(-(threads or self.tags) // WARP) * WARP, MAX_THREADS)
        types = NAMES[self.unary.dtype], NAMES[real or self.unary.dtype]
        memory = 8 * (doubles + threads)
        if memory > self.device.shared_memory:
            raise ValueError(
                f"kernel {kernel} needs {memory} bytes of shared memory for {self.tags} tags in "
                f"{types[1]}, but this GPU gives a block {self.device.shared_memory}: use fewer "
                "tags, or NumPy arrays"
            )
        of_batch = {
            "unary": self.unary,
            "transitions": self.transitions,
            "lengths": self.lengths,
            "size": self.size,
            "tags": self.tags,
            "tokens": self.n,
            "stride": 0 if self.shared else self.tags**2,
        }
        launch = device.Launch(file, kernel, types, blocks, threads, memory, of_batch | args, width)
        self.device.launch(launch)


def contiguous(xp: ModuleType, array: Array, dtype: np.dtype) -> Array:
    """Return an array of a dtype without gaps: `array` itself if it is one, in less of Python."""
    if type(array) is device.Part or (array.dtype == dtype and array.flags.c_contiguous):
        return array
    return xp.ascontiguousarray(array, dtype=dtype)


@lru_cache(maxsize=1024)
def _layout(numbers: tuple[tuple[int, np.dtype], ...]) -> tuple[list[int], int]:
    """Return the offset of each part in bytes, and the size of all."""
    ends = list(accumulate(-(-n * dtype.itemsize // ALIGNED) * ALIGNED for n, dtype in numbers))
    return [0, *ends[:-1]], max(ends[-1], ALIGNED)
