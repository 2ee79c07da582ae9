"""Vectors of words and their hierarchical clusters, for the attribute `cluster.name`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.util import load_language_data, registry
from tqdm import tqdm

from bcrf.io.extras import require

from .word_counts import NO_STATE, Checkpoint, Read, frequent_words, too_many_clusters

MANY = 20_000
"""Number of words above which K-means reads batches."""
RATES = 0.025, 0.0001
"""gensim's first and last learning rate."""


def cluster_words(
    read: Read,
    n_clusters: int = 256,
    *,
    min_freq: int = 3,
    dimensions: int = 50,
    seed: int = 0,
) -> dict[str, str]:
    """Cluster words by their neighbours, and return each word's path of bits in a binary tree.

    Word vectors are the truncated SVD of the positive pointwise mutual information of words and
    their left and right neighbours (Levy and Goldberg 2014). The words come in the order of their
    frequency. read: called twice. min_freq: least number of occurrences. ValueError for fewer words
    than clusters, ImportError naming the extra. O(N) memory for N tokens at most.
    """
    decomposition = require("sklearn.decomposition", "clusters")
    words = frequent_words(read, n_clusters, min_freq)
    ppmi = _neighbour_ppmi(read(), {word: i for i, word in enumerate(words)})
    size = min(dimensions, len(words) - 1)
    vectors = decomposition.TruncatedSVD(size, random_state=seed).fit_transform(ppmi)
    return cluster_vectors(words, vectors, n_clusters, seed)


def cluster_vectors(
    words: Sequence[str], vectors: NDArray[np.floating], n_clusters: int, seed: int = 0
) -> dict[str, str]:
    """Return paths of words by directions of vectors (V, D), by K-means. ValueError: too few."""
    cluster = require("sklearn.cluster", "clusters")
    if not 2 <= n_clusters <= len(words):
        raise too_many_clusters(n_clusters, len(words))
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    k_means = cluster.KMeans if len(words) <= MANY else cluster.MiniBatchKMeans
    k_means = k_means(n_clusters, random_state=seed, n_init=1).fit(vectors)
    # n_clusters=None makes the whole tree.
    ward = cluster.AgglomerativeClustering(None, distance_threshold=0, linkage="ward")
    paths = find_paths(ward.fit(k_means.cluster_centers_).children_)
    return {word: paths[k] for word, k in zip(words, k_means.labels_.tolist(), strict=True)}


class _Sentences:
    def __init__(self, read: Read) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Sequence[str]]:
        return (list(sentence) for sentence in self._read())


def train_vectors(
    read: Read,
    dimensions: int = 64,
    *,
    min_freq: int = 3,
    window: int = 3,
    epochs: int = 5,
    threads: int = 1,
    seed: int = 0,
    state: Checkpoint = NO_STATE,
) -> tuple[list[str], NDArray[np.float32]]:
    """Return V words in the order of their frequency, and their vectors (V, dimensions).

    Skip-grams with negative sampling (Mikolov et al. 2013), by gensim. Several threads give another
    result each time. read: called once, and once an epoch. window: most words between a word and
    its neighbour. state: to save after each epoch, and to go on from. ValueError without words.
    """
    word2vec = require("gensim.models.word2vec", "clusters")
    sentences = _Sentences(read)
    model = word2vec.Word2Vec(
        vector_size=dimensions, window=window, sg=1, min_count=min_freq, workers=threads, seed=seed
    )
    model.build_vocab(sentences)
    if not len(model.wv):
        raise ValueError(f"no word occurs at least {min_freq} times")
    saved = state.load()
    if saved:
        model.wv.vectors, model.syn1neg = saved["vectors"], saved["hidden"]
    rates = np.linspace(*RATES, epochs + 1)
    start = int(saved["epochs"]) if saved else 0
    for k in tqdm(range(start, epochs), "epochs", delay=1, leave=False):
        options = {"epochs": 1, "start_alpha": rates[k], "end_alpha": rates[k + 1]}
        model.train(sentences, total_examples=model.corpus_count, **options)
        state.save(vectors=model.wv.vectors, hidden=model.syn1neg, epochs=np.array(k + 1))
    state.remove()
    return list(model.wv.index_to_key), model.wv.vectors


def load_brown_clusters(lang: str) -> dict[str, str]:
    """Load the paths of spacy-lookups-data by word. ValueError names it for other languages."""
    tables = registry.lookups.get_all().get(lang, {})
    if "lexeme_cluster" not in tables:
        raise ValueError(
            f"there are no Brown clusters of the language {lang!r}. spacy-lookups-data has those "
            "of en, de and es: pip install spacy-lookups-data"
        )
    found: Any = load_language_data(tables["lexeme_cluster"])
    # The lowest bit of the number is the first bit of the path. 0 means no cluster.
    paths = ((word, f"{number:b}"[::-1]) for word, number in found.items() if number)
    return {word: path for word, path in paths if word and not any(map(str.isspace, word))}


def _neighbour_ppmi(sentences: Iterable[Sequence[str]], ids: dict[str, int]) -> Any:
    """Return the PPMI of W words and their neighbours, a sparse (W, 2 (W + 1)) matrix.

    Left neighbours, then right ones; the last of each half is any other word, or the end.
    """
    sparse = require("scipy.sparse", "clusters")
    n = len(ids)
    pairs: Counter[tuple[int, int]] = Counter()
    for sentence in sentences:
        known = [n, *(ids.get(word, n) for word in sentence), n]
        for left, right in pairwise(known):
            pairs[right, left] += 1
            pairs[left, n + 1 + right] += 1
    rows, columns = np.array([pair for pair in pairs if pair[0] < n]).T
    found = np.array([count for (row, _), count in pairs.items() if row < n], dtype="float64")
    by_row = np.bincount(rows, found, n)
    # Smoothed context counts lower the values of rare contexts.
    by_column = np.bincount(columns, found, 2 * (n + 1)) ** 0.75
    ratio = found * by_column.sum() / (by_row[rows] * by_column[columns])
    ppmi = np.maximum(np.log(ratio), 0)
    return sparse.csr_matrix((ppmi, (rows, columns)), shape=(n, 2 * (n + 1)))


def find_paths(children: NDArray[np.int64]) -> list[str]:
    """Return the path of each of K leaves. children: (K - 1, 2), node K + i has children[i]."""
    n_leaves = len(children) + 1
    paths = [""] * (2 * n_leaves - 1)
    for i in reversed(range(len(children))):
        for bit, child in enumerate(children[i]):
            paths[child] = f"{paths[n_leaves + i]}{bit}"
    return paths[:n_leaves]
