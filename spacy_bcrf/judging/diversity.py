"""Choice of different documents: vectors, facility location and near duplicates."""

import re
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

N_BUCKETS = 1024
"""Size of the vectors of boolean features."""

Vectors = NDArray[np.float32]


def document_vectors(pipe: SequenceLabeler, docs: Sequence[Doc]) -> Vectors:
    """Return vectors (B, D) of length 1, or 0 for an empty document. O(B D) memory.

    They are the mean of the token vectors, or the boolean features, weighted by log(B / number of
    documents) and hashed with signs to N_BUCKETS (Weinberger et al. 2009). Earlier components have
    annotated the documents. ValueError for a model that has neither.
    """
    if "tok2vec" in pipe.model.ref_names:
        encoder: Any = pipe.model.get_ref("tok2vec")
        ops = pipe.model.ops
        width = encoder.maybe_get_dim("nO") or 1
        means = [
            ops.to_numpy(vectors).mean(axis=0) if len(vectors) else np.zeros(width)
            for vectors in encoder.predict(list(docs))
        ]
        # The common direction of all documents says nothing about their differences.
        found = np.stack(means) - np.mean(means, axis=0)
    elif (chain := sparse_chain(pipe.model)) is not None:
        found = _hash_features([chain.features.keys([doc])[0] for doc in docs])
    else:
        raise ValueError(
            f"[{pipe.name}] the model has neither tok2vec nor boolean features to compare documents"
        )
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    vectors: Vectors = (found / np.where(norms > 0, norms, 1)).astype("float32")
    return vectors


def _hash_features(keys: Sequence[NDArray[np.uint64]]) -> NDArray[np.float64]:
    """Return vectors (B, N_BUCKETS) of documents, given as keys of features."""
    by_doc = [np.unique(of_doc) for of_doc in keys]
    flat, index = np.unique(np.concatenate(by_doc), return_inverse=True)
    weights = np.log(len(keys) / np.bincount(index, minlength=len(flat)))[index]
    flat = flat[index]
    docs = np.repeat(np.arange(len(keys)), [len(of_doc) for of_doc in by_doc])
    signs = np.where(flat >> np.uint64(63), 1.0, -1.0)
    cells = docs * N_BUCKETS + (flat % np.uint64(N_BUCKETS)).astype("int64")
    sums: Any = np.bincount(cells, weights * signs, len(keys) * N_BUCKETS)
    return sums.reshape(len(keys), N_BUCKETS)


def facility_location(vectors: Vectors, weights: NDArray[np.floating], n: int) -> list[int]:
    """Return up to n documents that cover all documents, the best first.

    Greedy maximization of sum_i weights[i] max_j max(0, cos(i, j)) over the chosen j, at least 1 -
    1/e times the best value, evaluated lazily (Minoux 1978). O(B^2) memory, O(n B^2) time at worst.
    vectors: (B, D) of length 1. weights: (B,) at least 0.
    """
    similarity = (vectors @ vectors.T).clip(min=0)
    # The sum of a document alone. A document with a zero vector covers itself.
    np.fill_diagonal(similarity, 1)
    covered = np.zeros(len(vectors))
    queue = [(-gain, j, 0) for j, gain in enumerate((weights @ similarity).tolist())]
    heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < n:
        gain, j, n_known = heappop(queue)
        if n_known < len(chosen):
            # Gains only fall, so an old gain is an upper bound.
            gain = -float(weights @ (similarity[j] - covered).clip(min=0))
            heappush(queue, (gain, j, len(chosen)))
            continue
        chosen.append(j)
        covered = np.maximum(covered, similarity[j])
    return chosen


class NearDuplicates:
    """Texts without near duplicates: Jaccard similarity of bigrams of words, without case."""

    def __init__(self, max_similarity: float) -> None:
        """max_similarity: the largest similarity of two texts that are kept, in [0, 1]."""
        self.max_similarity = max_similarity
        self._kept: list[set[tuple[str, str]]] = []
        self._texts_of: dict[tuple[str, str], list[int]] = {}

    def keep(self, text: str) -> bool:
        """Return whether no kept text is too similar, and keep the text if so."""
        n = len(self._kept)
        return self.find(text) == n

    def find(self, text: str) -> int:
        """Return the number of a kept text that is too similar, or keep the text as the next.

        Sets that share more than a part t of their bigrams share one of the first (1 - t) n in any
        order (prefix filter, Chaudhuri et al. 2006). Long words are first: few texts have them.
        """
        words = ["", *re.findall(r"\w+", re.sub(r"\d", "0", text.lower())), ""]
        bigrams = set(pairwise(words))
        order = sorted(bigrams, key=lambda pair: (-len(pair[0]) - len(pair[1]), pair))
        prefix = order[: len(order) - int(self.max_similarity * len(order))]
        for i in sorted({i for bigram in prefix for i in self._texts_of.get(bigram, ())}):
            n = len(bigrams & self._kept[i])
            if n > self.max_similarity * (len(bigrams) + len(self._kept[i]) - n):
                return i
        for bigram in prefix:
            self._texts_of.setdefault(bigram, []).append(len(self._kept))
        self._kept.append(bigrams)
        return len(self._kept) - 1
