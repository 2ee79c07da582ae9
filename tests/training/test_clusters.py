"""Brown clusters against all pairs of clusters, tried one by one."""

from itertools import combinations

import numpy as np
import pytest

from spacy_bcrf.training.clusters import Checkpoint, ClusterWindow, brown_clusters, count_words


def sentences(seed, n_words=14, n_sentences=60):
    rng = np.random.default_rng(seed)
    follows = rng.dirichlet(np.full(n_words, 0.3), n_words)
    for _ in range(n_sentences):
        word, sentence = int(rng.integers(n_words)), []
        for _ in range(8):
            sentence.append(f"w{word}")
            word = int(rng.choice(n_words, p=follows[word]))
        yield sentence


def information(counts, clusters):
    """Mutual information of neighbouring clusters, times the number of pairs."""
    index = {word: k for k, cluster in enumerate(clusters) for word in cluster}
    table = np.zeros((len(clusters), len(clusters)))
    for (left, right), n in zip(counts.pairs.tolist(), counts.numbers, strict=True):
        if left in index and right in index:
            table[index[left], index[right]] += n
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return sum(n * np.log(n / e) for n, e in zip(table.flat, expected.flat, strict=True) if n)


def without(clusters, a, b):
    rest = [c for k, c in enumerate(clusters) if k not in (a, b)]
    return [*rest, clusters[a] | clusters[b]]


@pytest.mark.parametrize("seed", range(4))
def test_every_merge_loses_as_little_information_as_any(seed):
    counts = count_words(lambda: sentences(seed), 1)
    window = ClusterWindow(counts, 6)
    clusters = []

    def merge():
        nonlocal clusters
        costs = window.costs()
        before = information(counts, clusters)
        losses = {
            pair: before - information(counts, without(clusters, *pair))
            for pair in combinations(range(len(clusters)), 2)
        }
        assert costs.min() == pytest.approx(min(losses.values()), abs=1e-6)
        kept, gone = window.merge()
        slot = {next(iter(c)): k for k, c in enumerate(clusters)}
        found = [set(np.flatnonzero(window.slots == s)) for s in set(window.slots) - {-1}]
        merged = [c for c in found if c not in clusters]
        assert len(merged) == 1 and len(slot) == len(found) + 1 and kept != gone
        clusters = found

    for word in range(len(counts.words)):
        window.add(word)
        clusters.append({word})
        if window.is_full:
            merge()
    while len(clusters) > 1:
        merge()


def test_words_with_the_same_neighbours_share_a_path(tmp_path):
    lines = [[".", noun, verb, "."] for noun in "xyz" for verb in ("sees", "bites")]
    paths = brown_clusters(count_words(lambda: lines, 1), 3, Checkpoint(tmp_path / "s", "a"))
    assert paths["x"] == paths["y"] == paths["z"] and paths["sees"] == paths["bites"]
    leaves = set(paths.values())
    assert len(leaves) == 3
    assert not any(b.startswith(a) for a in leaves for b in leaves if a != b)


def test_a_killed_clustering_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_bcrf.training.clusters.SAVE_EVERY", 4)
    counts = count_words(lambda: sentences(9), 1)
    whole = brown_clusters(counts, 5, Checkpoint(tmp_path / "whole", "a"))
    merge, n = ClusterWindow.merge, 0

    def killed(self):
        nonlocal n
        n += 1
        if n == 6:
            raise KeyboardInterrupt
        return merge(self)

    path = tmp_path / "state.npz"
    monkeypatch.setattr(ClusterWindow, "merge", killed)
    with pytest.raises(KeyboardInterrupt):
        brown_clusters(counts, 5, Checkpoint(path, "a"))
    assert path.exists() and not Checkpoint(path, "b").load()
    n = 100
    assert brown_clusters(counts, 5, Checkpoint(path, "a")) == whole
    # It went on from word 8: one merge a later word, and those of the tree.
    assert n - 100 == len(counts.words) - 8 + 4
    assert not path.exists()


def test_pairs_are_counted_over_chunks(monkeypatch):
    whole = count_words(lambda: sentences(2), 1)
    monkeypatch.setattr("spacy_bcrf.training.clusters.CHUNK", 10)
    parts = count_words(lambda: sentences(2), 1)
    assert parts.words == whole.words
    assert np.array_equal(parts.pairs, whole.pairs)
    assert np.array_equal(parts.numbers, whole.numbers)
    assert whole.numbers.sum() == 60 * 7


@pytest.mark.parametrize("content", [b"", b"PK", b"[" * 1000])
def test_a_damaged_state_is_no_state(tmp_path, content):
    (tmp_path / "state").write_bytes(content)
    assert Checkpoint(tmp_path / "state", "a").load() == {}
