"""Quantized word vectors of `nlp.vocab`: features from embeddings (Guo et al. 2014).

A word has `7+` if its dimension 7, from 1, is in the highest third of all vectors, `7-` in the
lowest. The saved model has the bounds, so other vectors do not change the values of a word.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.vectors import Mode  # type: ignore[import-not-found]
from thinc.util import to_numpy

VECTOR = "vector"


def measure_terciles(vectors: Any) -> dict[str, str]:
    """Return both terciles of each dimension, over all vectors but zeros: `{"1": "-0.5 0.25"}`.

    ValueError without vectors, or for floret vectors, whose rows are not words.
    """
    _check_vectors(vectors)
    data = to_numpy(vectors.data)
    data = data[data.any(axis=1)]
    if not data.size:
        raise ValueError("all vectors of the vocabulary are zeros")
    low, high = np.quantile(data, [1 / 3, 2 / 3], axis=0).tolist()
    return {str(d): f"{a} {b}" for d, (a, b) in enumerate(zip(low, high, strict=True), start=1)}


def check_dimensions(terciles: Mapping[str, str], dimensions: Sequence[int] | None) -> None:
    """Raise ValueError if ascending dimensions exceed the terciles'."""
    if dimensions is not None and dimensions[-1] > len(terciles):
        raise ValueError(f"the vectors have {len(terciles)} dimensions, but not {dimensions[-1]}")


def parse_terciles(terciles: Mapping[str, str]) -> NDArray[np.float64]:
    """Return the terciles (2, D). ValueError unless they are ascending finite numbers."""
    try:
        found = [tuple(map(float, terciles[str(d + 1)].split())) for d in range(len(terciles))]
        bounds = np.array([(low, high) for low, high in found]).reshape(-1, 2).T
    except (KeyError, ValueError):
        bounds = np.array([[np.nan], [np.nan]])
    if not bounds.size or not np.isfinite(bounds).all() or (bounds[0] > bounds[1]).any():
        raise ValueError("the terciles of the vectors are not two numbers for each dimension")
    return bounds


def quantize(
    terciles: Mapping[str, str], dimensions: Sequence[int] | None, doc: Doc
) -> list[list[str]]:
    """Return the values of each token, none for a word without a vector. dimensions: None for all.

    ValueError without vectors, for floret vectors, or for another number of dimensions.
    """
    vectors = doc.vocab.vectors
    _check_vectors(vectors)
    if vectors.shape[1] != len(terciles):
        raise ValueError(
            f"the vectors have {vectors.shape[1]} dimensions, but {len(terciles)} when the model "
            "was initialized"
        )
    check_dimensions(terciles, dimensions)
    low, high = parse_terciles(terciles)
    names = [(d, f"{d}-", f"{d}+") for d in dimensions or range(1, len(low) + 1)]
    known: dict[int, list[str]] = {}
    for orth in {token.orth for token in doc}:
        known[orth] = []
        if doc.vocab.has_vector(orth):
            vector = to_numpy(doc.vocab.get_vector(orth))
            signs = ((vector > high).astype("int8") - (vector < low)).tolist()
            known[orth] = [
                (lower, upper)[signs[d - 1] > 0] for d, lower, upper in names if signs[d - 1]
            ]
    return [known[token.orth] for token in doc]


def _check_vectors(vectors: Any) -> None:
    if vectors.mode == Mode.floret:
        raise ValueError("the vocabulary has floret vectors; expected one vector a word")
    if not vectors.shape[1] or not vectors.shape[0]:
        raise ValueError(
            "the vocabulary has no vectors; set initialize.vectors to a pipeline with vectors"
        )
