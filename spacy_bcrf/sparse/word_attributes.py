"""Attributes that follow from a word's form alone: computed once a word type, not once a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.strings import hash_string  # type: ignore[attr-defined]

Function = Callable[[str, int, int], Iterator[str]]
"""From a word and a range of lengths to values."""


def _prefixes(word: str, first: int, last: int) -> Iterator[str]:
    return (word[:n] for n in range(first, min(last, len(word)) + 1))


def _suffixes(word: str, first: int, last: int) -> Iterator[str]:
    return (word[-n:] for n in range(first, min(last, len(word)) + 1))


def _substrings(word: str, first: int, last: int) -> Iterator[str]:
    found = {word[i : i + n] for n in range(first, last + 1) for i in range(len(word) - n + 1)}
    return iter(sorted(found))


def _digits_masked(word: str) -> str:
    return "".join("#" if char.isdigit() else char for char in word.lower())


def _brief_shape(word: str) -> str:
    """`Xx-d` for `Interleukin-12`: runs of one kind count once."""
    kinds = (
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word
    )
    brief: list[str] = []
    for kind in kinds:
        if brief[-1:] != [kind]:
            brief.append(kind)
    return "".join(brief)


def _characters(word: str) -> Iterator[str]:
    """Word characteristics of the SAPO paper and of Ratnaparkhi (1996), one value each."""
    tests = {
        "digit": any(c.isdigit() for c in word),
        "upper": any(c.isupper() for c in word),
        "initial": word[:1].isupper(),
        "all upper": word.isupper(),
        "hyphen": "-" in word,
        "alphanumeric": any(c.isdigit() for c in word) and any(c.isalpha() for c in word),
        "only punctuation": not any(c.isalnum() for c in word),
        "inner upper": any(c.isupper() for c in word[1:]) and not word.isupper(),
    }
    return (name for name, holds in tests.items() if holds)


LENGTHS: dict[str, Function] = {
    "prefix": _prefixes,
    "suffix": _suffixes,
    "substring": _substrings,
}
"""Functions that want a length or a range of lengths, in characters."""

PLAIN: dict[str, Callable[[str], Iterator[str]]] = {
    "digits": lambda word: iter([_digits_masked(word)]),
    "brief": lambda word: iter([_brief_shape(word)]),
    "character": _characters,
}
"""Functions without an argument: the lowercased word with `#` for digits, its shape with runs
counted once, its character classes."""


class Bags(NamedTuple):
    """Hashes of values, several to each of K cells: values[starts[k]:starts[k + 1]]."""

    starts: NDArray[np.int64]
    values: NDArray[np.uint64]


NONE = Bags(np.zeros(1, dtype="int64"), np.zeros(0, dtype="uint64"))


class _Types:
    """Values of word types in the order in which they were met. The dictionary alone says how many
    there are: what was written for others, by a call that was interrupted, is written over."""

    def __init__(self, n_functions: int) -> None:
        from spacy_bcrf.kernels.sparse import Dictionary

        self._n_functions = n_functions
        self.index: Any = Dictionary()
        self._starts, self._values = _Growing("int64"), _Growing("uint64")
        self.bags = Bags(self._starts.write(0, [0]), self._values.write(0, []))

    def add(self, words: dict[int, list[list[int]]]) -> None:
        """The hashes of values that each new word, by hash, has of each function."""
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
    """An array that is written at its end; views of what was written before keep their values."""

    def __init__(self, dtype: str) -> None:
        self._data = np.empty(64, dtype=dtype)

    def write(self, at: int, new: Any) -> NDArray:
        size = at + len(new)
        if size > len(self._data):
            data = np.empty(2 * size, dtype=self._data.dtype)
            data[:at] = self._data[:at]
            self._data = data
        self._data[at:size] = new
        return self._data[:size]


class Words:
    """The values of M functions for word types, added as they are met; by any number of threads.

    most: word types after which all are forgotten, so that a stream of text takes no end of memory.
    """

    def __init__(
        self, functions: list[Callable[[str], Iterator[str]]], most: int = 200_000
    ) -> None:
        self._functions = functions
        self._most = most
        self._types: _Types | None = None
        self._lock = Lock()

    def find(
        self, orths: NDArray[np.uint64], text: Callable[[int], str]
    ) -> tuple[NDArray[np.int32], Bags]:
        """int32 (N,) the types of words, given by hash, and the values of types, (types, M) bags.

        text: what the hash stands for.
        """
        if not self._functions:
            return np.zeros(len(orths), dtype="int32"), NONE
        with self._lock:
            if self._types is None or len(self._types.index) > self._most:
                self._types = _Types(len(self._functions))
            types = self._types.index.find(orths)
            new = dict.fromkeys(orths[types < 0].tolist())
            if new:
                self._types.add({orth: self._compute(text(orth)) for orth in new})
                types = self._types.index.find(orths)
            return types, self._types.bags

    def _compute(self, word: str) -> list[list[int]]:
        return [[hash_string(value) for value in function(word)] for function in self._functions]
