"""Quantized word vectors of `nlp.vocab`: features from embeddings (Guo et al. 2014)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.util import to_numpy

_MOST = 200_000
"""Number of words above which the cache is emptied."""


class QuantizedVectors:
    """Classes of the dimensions of word vectors.

    Value `7+` of a word: its dimension 7, counted from 1, is in the highest third of all vectors;
    `7-`: in the lowest third. The middle third has no value.

    dimensions: the dimensions to use; None for all.
    """

    def __init__(self, dimensions: Iterable[int] | None) -> None:
        self._dimensions = None if dimensions is None else list(dimensions)
        # One attribute, so that other threads never see thresholds of other vectors.
        self._state: tuple[Any, NDArray, dict[int, list[str]]] | None = None

    def __call__(self, doc: Doc) -> list[list[str]]:
        """Return the values of each token, none for a word without a vector.

        Raises ValueError if the vocabulary has no vectors, or vectors with fewer dimensions.
        """
        vectors = doc.vocab.vectors
        if self._state is None or self._state[0] is not vectors or len(self._state[2]) > _MOST:
            self._state = vectors, self._thresholds(vectors), {}
        _, thresholds, known = self._state
        found = []
        for token in doc:
            if token.orth not in known:
                known[token.orth] = self._quantize(token, thresholds)
            found.append(known[token.orth])
        return found

    def _thresholds(self, vectors: Any) -> NDArray:
        """Return the terciles (2, D) of the dimensions, over all vectors but zeros."""
        data = to_numpy(vectors.data)
        data = data[data.any(axis=1)]
        if not data.size:
            raise ValueError(
                "the vocabulary has no vectors; set initialize.vectors to a pipeline with vectors"
            )
        last = max(self._dimensions or [1])
        if last > data.shape[1]:
            raise ValueError(f"the vectors have {data.shape[1]} dimensions, but not {last}")
        return np.quantile(data, [1 / 3, 2 / 3], axis=0)

    def _quantize(self, token: Any, thresholds: NDArray) -> list[str]:
        if not token.has_vector:
            return []
        vector = to_numpy(token.vector)
        signs = (vector > thresholds[1]).astype("int8") - (vector < thresholds[0])
        dimensions = self._dimensions or range(1, len(vector) + 1)
        return [f"{d}{'+' if signs[d - 1] > 0 else '-'}" for d in dimensions if signs[d - 1]]
