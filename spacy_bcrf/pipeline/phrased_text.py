"""Phrases of gazetteers in a text that arrives in pieces."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import LOWER, ORTH  # type: ignore[import-not-found]
from spacy.tokens import Doc

from spacy_bcrf.annotation.arrays import read_attributes
from spacy_bcrf.annotation.identifiers import Identifier
from spacy_bcrf.annotation.text_stream import LONG_WORD, MOST_WORDS
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.gazetteers import WordHashes

Marked = tuple[str, list[Identifier]]
"""A text whose tokens are final, and identifiers in its characters."""


class PhrasedText:
    """The places in phrases of a text whose tokens are final. They wait for the end of a phrase.

    state: the waiting texts with the hashes of their words. It can be set back to an earlier one.
    """

    def __init__(self, features: Features, tokenizer: Callable[[str], Doc]) -> None:
        self._features, self._tokenizer = features, tokenizer
        self._known: dict[str, NDArray[np.uint64]] = {}
        self.state: tuple[tuple[Marked, NDArray[np.uint64]], ...] = ()

    def read(
        self, texts: Sequence[Marked], ended: bool
    ) -> list[tuple[str, list[Identifier], NDArray[np.int8] | None]]:
        """Return texts whose places are known: (A, N) each, None if they are in no phrase."""
        waiting = (*self.state, *((one, self._hash(one[0])) for one in texts))
        if not waiting or not (texts or ended):
            return []
        ends = np.cumsum([len(hashes) for _, hashes in waiting])
        hashes = np.concatenate([hashes for _, hashes in waiting])
        words = WordHashes(hashes, np.array([len(hashes)]))
        places = self._features.find_places(words)
        n = len(hashes) if ended else self._features.gazetteers.count_final(words, places, ends)
        n_final = int(ends.searchsorted(n, "right"))
        self.state = waiting[n_final:]
        parts = np.split(places, ends[:n_final], axis=1)[:n_final]
        return [
            (text, identifiers, part if (part >= 0).any() else None)
            for ((text, identifiers), _), part in zip(waiting[:n_final], parts, strict=True)
        ]

    def _hash(self, text: str) -> NDArray[np.uint64]:
        if text not in self._known:
            if len(self._known) >= MOST_WORDS:
                self._known.clear()
            found = read_attributes([self._tokenizer(text)], [LOWER, ORTH])
            if len(text) > LONG_WORD:
                return found
            self._known[text] = found
        return self._known[text]
