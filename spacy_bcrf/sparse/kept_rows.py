"""The feature rows of training documents, which later passes find again."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from sys import getsizeof

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from bcrf.linear.rows import Rows
from spacy_bcrf.annotation.arrays import Attributes, doc_bounds, read_attributes

MOST_BYTES = 200_000_000
"""Largest size of the kept rows and signatures."""


class KeptRows:
    """The rows of documents by signature, and the number of rows of each token, oldest first.

    A signature is the bytes of the attributes that determine the features of a document.
    """

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[NDArray[np.int32], NDArray[np.int64]]] = {}
        self._size = 0  # bytes

    def find(
        self,
        docs: Sequence[Doc],
        attributes: Attributes,
        look_up: Callable[[Sequence[Doc]], Rows],
    ) -> Rows:
        """Return the rows of documents. look_up: finds the rows of documents that are not kept."""
        values = read_attributes(docs, attributes)
        signatures = [values[start:stop].tobytes() for start, stop in doc_bounds(docs)]
        pairs = zip(signatures, docs, strict=True)
        new = {key: doc for key, doc in pairs if key not in self._kept}
        if new:
            found = look_up(list(new.values()))
            bounds = np.cumsum([0, *(len(doc) for doc in new.values())]).tolist()
            for key, (first, last) in zip(new, pairwise(bounds), strict=True):
                starts = found.starts[first : last + 1]
                # A copy, because a view would keep the rows of the whole batch.
                self._kept[key] = found.rows[starts[0] : starts[-1]].copy(), np.diff(starts)
                self._size += _size(key, *self._kept[key])
        rows, counts = zip(*(self._kept[key] for key in signatures), strict=True)
        while self._size > MOST_BYTES:
            oldest = next(iter(self._kept))
            self._size -= _size(oldest, *self._kept.pop(oldest))
        starts = np.concatenate([[0], np.concatenate(counts).cumsum(dtype="int64")])
        return Rows(np.concatenate(rows), starts)


def _size(*parts: bytes | NDArray) -> int:
    return sum(map(getsizeof, parts))
