"""Values of word types, such as suffixes, computed once a type."""

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WordFunction = Callable[[str], Iterable[str]]
"""From a word to the values of an attribute."""


class Bags(NamedTuple):
    """Hashes of the values of K cells: cell k has values[starts[k]:starts[k + 1]]."""

    starts: NDArray[np.int64]
    values: NDArray[np.uint64]


NONE = Bags(np.zeros(1, dtype="int64"), np.zeros(0, dtype="uint64"))


class _Types:
    """Word types in the order of their first occurrence, and their bags of values.

    `index` alone says how many there are: after an interruption, the next call overwrites values.
    """

    def __init__(self, n_functions: int) -> None:
        from bcrf.kernels.sparse import Dictionary

        self._n_functions = n_functions
        self.index: Any = Dictionary()
        self._starts, self._values = _Growing("int64"), _Growing("uint64")
        self.bags = Bags(self._starts.write(0, [0]), self._values.write(0, []))

    def add(self, words: dict[int, list[list[int]]]) -> None:
        """Append new types: for each word, by hash, the hashed values of each function."""
        cells = [values for cells in words.values() for values in cells]
        first = len(self.index) * self._n_functions
        used = int(self.bags.starts[first])
        ends = np.cumsum([used, *map(len, cells)])
        self.bags = Bags(
            self._starts.write(first, ends),
            self._values.write(used, [value for values in cells for value in values]),
        )
        self.index.find(np.array(list(words), dtype="uint64"), True)


class _Growing:
    """An array that grows at its end. Views of earlier values stay valid."""

    def __init__(self, dtype: str) -> None:
        self._data = np.empty(64, dtype=dtype)

    def write(self, at: int, new: Any) -> NDArray:
        """Write values from `at` on, and return a view of everything up to their end."""
        size = at + len(new)
        if size > len(self._data):
            data = np.empty(2 * size, dtype=self._data.dtype)
            data[:at] = self._data[:at]
            self._data = data
        self._data[at:size] = new
        return self._data[:size]


class WordCache:
    """Thread-safe cache of the values of M functions for word types.

    functions: map a word to the values of an attribute. hash_text: maps a value to 64 bits.
    most: number of word types above which the cache is emptied, so that its memory stays bounded.
    """

    def __init__(
        self,
        functions: Sequence[WordFunction],
        hash_text: Callable[[str], int],
        most: int = 30_000,
    ) -> None:
        self._functions = functions
        self._hash = hash_text
        self._most = most
        self._types: _Types | None = None
        self._lock = Lock()

    def find(
        self, orths: NDArray[np.uint64], text: Callable[[int], str]
    ) -> tuple[NDArray[np.int32], Bags]:
        """Return the types of N words, int32 (N,), and (types, M) bags of hashed values.

        orths: (N,) hashes of the words.
        text: returns the word of a hash; called for new words.
        """
        if not self._functions:
            return np.zeros(len(orths), dtype="int32"), NONE
        # A fork beside a thread that holds the lock would wait for ever.
        if not self._lock.acquire(blocking=False):
            return self._look_up(_Types(len(self._functions)), orths, text)
        try:
            if self._types is None or len(self._types.index) > self._most:
                self._types = _Types(len(self._functions))
            return self._look_up(self._types, orths, text)
        finally:
            self._lock.release()

    def _look_up(
        self, known: _Types, orths: NDArray[np.uint64], text: Callable[[int], str]
    ) -> tuple[NDArray[np.int32], Bags]:
        types = known.index.find(orths)
        new = dict.fromkeys(orths[types < 0].tolist())
        if new:
            known.add({orth: self._compute(text(orth)) for orth in new})
            types = known.index.find(orths)
        return types, known.bags

    def _compute(self, word: str) -> list[list[int]]:
        return [[self._hash(value) for value in function(word)] for function in self._functions]
