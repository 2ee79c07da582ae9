"""Sentences of a corpus as arrays that the learner takes directly, without spaCy documents.

For experiments: used by `scripts` and `benchmarks`, not by components.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.strings import hash_string  # type: ignore[attr-defined]

from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.sparse.features import Features, Rows, known_rows

_COLUMNS: dict[str, Callable[[Sentence], list[str]]] = {
    "orth": lambda sentence: sentence.words,
    "lower": lambda sentence: [word.lower() for word in sentence.words],
    "tag": lambda sentence: [tag or "" for tag in sentence.tags],
}


class Dataset:
    """Rows of features and tag ids of the sentences it was made from, and of others."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        templates: Sequence[str],
        tags: Callable[[Sentence], Sequence[str]],
        min_freq: int = 1,
    ) -> None:
        """tags: what is to be learned of a sentence. min_freq: of a feature, to be one."""
        from spacy_bcrf.kernels.sparse import Dictionary

        self._features = Features(templates)
        columns = self._features.columns
        unknown = [str(a) for a in columns if a.name not in _COLUMNS] + [
            str(a) for a in self._features.listed
        ]
        if unknown:
            raise ValueError(f"sentences without documents have no {', '.join(unknown)}")
        self.dictionary = Dictionary()
        keys, starts = self._keys(sentences)
        self.dictionary.count(keys)
        self.dictionary.keep(min_freq)
        self.rows = known_rows(self.dictionary.find(keys), starts)
        self.lengths = sentence_lengths(sentences)
        gold = [list(tags(sentence)) for sentence in sentences]
        self.tags = sorted({tag for labeling in gold for tag in labeling})
        ids = {tag: i for i, tag in enumerate(self.tags)}
        self.gold = np.array([ids[tag] for labeling in gold for tag in labeling], dtype="int32")

    def read(self, sentences: Sequence[Sentence]) -> tuple[Rows, NDArray[np.int32]]:
        """Features of other sentences, without those that are unknown, and their lengths."""
        keys, starts = self._keys(sentences)
        return known_rows(self.dictionary.find(keys), starts), sentence_lengths(sentences)

    def _keys(self, sentences: Sequence[Sentence]) -> tuple[NDArray, NDArray]:
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
        keys, starts, _ = self._features.extract(
            np.array(orths, dtype="uint64"),
            values,
            sentence_lengths(sentences),
            strings.__getitem__,
        )
        return keys, starts


def sentence_lengths(sentences: Sequence[Sentence]) -> NDArray[np.int32]:
    """(B,) numbers of words."""
    return np.array([len(sentence.words) for sentence in sentences], dtype="int32")
