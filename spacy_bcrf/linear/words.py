"""Attributes that follow from a word's form alone: computed once a word type, not once a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

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


class Words:
    """The values of M functions for word types, added as they are met."""

    def __init__(self, functions: list[Callable[[str], Iterator[str]]]) -> None:
        from ..kernels.linear import Dictionary

        self._functions = functions
        self._index = Dictionary()
        self._values: list[int] = []
        self._starts: list[int] = [0]
        self._bags: Bags | None = None

    def find(self, orths: NDArray[np.uint64], text: Callable[[int], str]) -> NDArray[np.int32]:
        """int32 (N,) the types of words, given by hash; `text` says what the hash stands for."""
        if not self._functions:
            return np.zeros(len(orths), dtype="int32")
        known = len(self._index)
        types = self._index.find(orths, True)
        if len(self._index) > known:
            self._bags = None
            for orth in self._index.keys[known:].tolist():
                word = text(orth)
                for function in self._functions:
                    self._values.extend(hash_string(value) for value in function(word))
                    self._starts.append(len(self._values))
        return types

    @property
    def bags(self) -> Bags:
        """(types, M) those of the types met so far."""
        if self._bags is None:
            self._bags = Bags(
                np.array(self._starts, dtype="int64"), np.array(self._values, dtype="uint64")
            )
        return self._bags
