"""Counts of words and of neighbouring words in a stream of sentences, and saved states."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from bcrf.io.atomic import replacing

CHUNK = 1_000_000
"""Tokens whose pairs are counted at once."""

Read = Callable[[], Iterable[Sequence[str]]]
"""Returns the sentences of a corpus, each a sequence of words."""


class WordCounts(NamedTuple):
    """V words by frequency, pairs of a word and the next one (P, 2), and their numbers (P,)."""

    words: list[str]
    pairs: NDArray[np.int64]
    numbers: NDArray[np.int64]


def count_words(read: Read, n_clusters: int, min_freq: int) -> WordCounts:
    """Count frequent words and pairs of them in sentences. read: called twice.

    ValueError if the words are too few for the clusters.
    """
    counts = Counter(word for sentence in read() for word in sentence)
    words = [word for word, n in counts.most_common() if n >= min_freq]
    if not 2 <= n_clusters <= len(words):
        raise ValueError(
            f"{n_clusters} clusters of {len(words)} words that occur at least {min_freq} times; "
            "expected from 2 clusters to as many as words. Choose fewer clusters, or give more text"
        )
    ids = {word: i for i, word in enumerate(words)}
    keys, numbers = np.zeros(0, "int64"), np.zeros(0, "int64")
    for chunk in _chunks(read(), ids):
        is_pair = (chunk[:-1] >= 0) & (chunk[1:] >= 0)
        found, n = np.unique((chunk[:-1] * len(ids) + chunk[1:])[is_pair], return_counts=True)
        keys, places = np.unique(np.concatenate([keys, found]), return_inverse=True)
        numbers = np.bincount(places, np.concatenate([numbers, n]), len(keys)).astype("int64")
    return WordCounts(words, np.stack(np.divmod(keys, len(ids)), axis=1), numbers)


def _chunks(sentences: Iterable[Sequence[str]], ids: dict[str, int]) -> Iterator[NDArray]:
    """Yield the ids of about `CHUNK` tokens, -1 for other words and between sentences."""
    chunk: list[int] = []
    for sentence in sentences:
        chunk += [ids.get(word, -1) for word in sentence]
        chunk.append(-1)
        if len(chunk) >= CHUNK:
            yield np.array(chunk, dtype="int64")
            chunk = []
    yield np.array(chunk, dtype="int64")


class Checkpoint:
    """A file with the state of a computation, so that a killed one goes on."""

    def __init__(self, path: Path, identity: str) -> None:
        self._path, self._identity = path, identity

    def load(self) -> dict[str, NDArray]:
        """Return the saved arrays, none if there is no state of this computation."""
        try:
            with np.load(self._path, allow_pickle=False) as data:
                found = dict(data)
        except (OSError, EOFError, ValueError, BadZipFile):  # EOFError: an empty file
            return {}
        return found if str(found.pop("identity", "")) == self._identity else {}

    def save(self, **arrays: NDArray) -> None:
        with replacing(self._path) as path, path.open("wb") as file:
            np.savez(file, allow_pickle=False, identity=np.array(self._identity), **arrays)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
