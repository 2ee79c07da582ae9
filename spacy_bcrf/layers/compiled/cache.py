"""The cache of word embeddings between predictions."""

from operator import is_
from typing import Any

import numpy as np

from bcrf.kernels import encoder as kernels


class Cache:
    """The embeddings of distinct rows of attributes, under one set of parameters."""

    def __init__(self, stack: kernels.Stack, tables: list[Any], attributes: int, width: int):
        self.stack, self._tables = stack, tables
        self._sample = kernels.fingerprint(tables, sample=True)
        self._mark = kernels.fingerprint(tables)
        self.index = kernels.DistinctRows(attributes)
        self.vectors = np.zeros((256, width), "float32")
        self.size = 0

    def has(self, tables: list[Any], learns: bool) -> bool:
        """Return whether the embeddings are of these tables; a sample tells if nothing learns."""
        if not learns and all(map(is_, tables, self._tables)):
            return kernels.fingerprint(tables, sample=True) == self._sample
        if kernels.fingerprint(tables) != self._mark:
            return False
        self._tables = tables
        return True

    def add(self, vectors: Any) -> None:
        size = self.size + len(vectors)
        if size > len(self.vectors):
            grown = np.zeros((max(size, 2 * len(self.vectors)), vectors.shape[1]), "float32")
            grown[: self.size] = self.vectors[: self.size]
            self.vectors = grown
        self.vectors[self.size : size] = vectors
        self.size = size
