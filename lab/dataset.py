"""Sentences of a corpus as arrays for `OnlineLearner`, without spaCy documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.strings import hash_string  # type: ignore[attr-defined]

from bcrf.linear.features import Tokens
from bcrf.linear.rows import Rows, known_rows
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.sparse.features import Features

_COLUMNS: dict[str, Callable[[Sentence], list[str]]] = {
    "orth": lambda sentence: sentence.words,
    "lower": lambda sentence: [word.lower() for word in sentence.words],
    "tag": lambda sentence: [tag or "" for tag in sentence.tags],
}


class Dataset:
    """Training sentences: their feature rows, lengths and gold tag ids.

    labels: returns the gold tags of a sentence.

    Raises ValueError if a template needs a spaCy document.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        templates: Sequence[str],
        labels: Callable[[Sentence], Sequence[str]],
    ) -> None:
        from bcrf.kernels.sparse import Dictionary

        self._features = Features(templates)
        columns = self._features.columns
        unknown = [str(a) for a in columns if a.name not in _COLUMNS] + [
            str(a) for a in self._features.listed
        ]
        if unknown:
            raise ValueError(f"no values for {', '.join(unknown)}; expected {', '.join(_COLUMNS)}")
        self.dictionary = Dictionary()
        keys, starts = self._keys(sentences)
        self.dictionary.count(keys)
        self.dictionary.keep(1)
        self.rows = known_rows(self.dictionary.find(keys), starts)
        self.lengths = sentence_lengths(sentences)
        gold = [list(labels(sentence)) for sentence in sentences]
        self.tags = sorted({tag for labeling in gold for tag in labeling})
        ids = {tag: i for i, tag in enumerate(self.tags)}
        self.gold = np.array([ids[tag] for labeling in gold for tag in labeling], dtype="int32")

    def read(self, sentences: Sequence[Sentence]) -> tuple[Rows, NDArray[np.int32]]:
        """Look up the feature rows of other sentences, without unknown ones, and the lengths."""
        keys, starts = self._keys(sentences)
        return known_rows(self.dictionary.find(keys), starts), sentence_lengths(sentences)

    def split(self, ids: NDArray[np.int32], lengths: NDArray[np.int32]) -> list[list[str]]:
        """Return the tags of each sentence from tag ids (N,)."""
        parts = np.split(np.array(self.tags)[ids], lengths.cumsum()[:-1])
        return [part.tolist() for part in parts]

    def _keys(self, sentences: Sequence[Sentence]) -> tuple[NDArray, NDArray]:
        keys, starts = self._features.compiled.extract(self._encode(sentences))
        return keys, starts

    def _encode(self, sentences: Sequence[Sentence]) -> Tokens:
        strings: dict[int, str] = {}

        def encode(text: str) -> int:
            key = hash_string(text) if text else 0
            strings[key] = text
            return key

        orths = [encode(word) for sentence in sentences for word in sentence.words]
        columns = [
            [encode(text) for sentence in sentences for text in _COLUMNS[a.name](sentence)]
            for a in self._features.columns
        ]
        values = np.array(columns, dtype="uint64").reshape(len(columns), len(orths)).T
        words = np.array(orths, dtype="uint64")
        return Tokens(words, values, sentence_lengths(sentences), strings.__getitem__)


def spans(sentence: Sentence) -> list[str]:
    """Return the BIO tags of a sentence."""
    return [tag or "O" for tag in sentence.entities]


def tags(sentence: Sentence) -> list[str]:
    """Return the part-of-speech tags of a sentence."""
    return [tag or "" for tag in sentence.tags]


def sentence_lengths(sentences: Sequence[Sentence]) -> NDArray[np.int32]:
    """Return the numbers of words, (B,)."""
    return np.array([len(sentence.words) for sentence in sentences], dtype="int32")
