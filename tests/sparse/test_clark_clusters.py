"""Clark's clusters against the whole log-likelihood, computed again for each class."""

from itertools import product

import numpy as np
import pytest
from test_brown_clusters import sentences

from spacy_bcrf.sparse.clark_clusters import Classes, clark_clusters
from spacy_bcrf.sparse.word_counts import Checkpoint, count_words


def likelihood(counts, classes, n_classes):
    """Sum over pairs of log p(class | class before) and over words of log p(letters), by loops."""
    found = 0.0
    pairs = [(*pair, n) for pair, n in zip(counts.pairs.tolist(), counts.numbers, strict=True)]
    for c, d in product(range(n_classes), repeat=2):
        n = sum(k for a, b, k in pairs if classes[a] == c and classes[b] == d)
        left = sum(k for a, _, k in pairs if classes[a] == c)
        right = sum(k for _, b, k in pairs if classes[b] == d)
        found += n * np.log(n / (left * right)) if n else 0
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_best_class_has_the_largest_likelihood_of_bigrams(seed, monkeypatch):
    counts = count_words(lambda: sentences(seed), 4, 1)
    model = Classes(counts, 4)
    model.assign(np.arange(len(counts.words)) % 4)
    monkeypatch.setattr(model, "_spell", lambda word: np.zeros(4))
    for word in range(len(counts.words)):
        start = model.classes.copy()
        tried = [np.where(np.arange(len(start)) == word, c, start) for c in range(4)]
        values = [likelihood(counts, classes, 4) for classes in tried]
        model.move(word)
        assert likelihood(counts, model.classes, 4) == pytest.approx(max(values))
        again = Classes(counts, 4)
        again.assign(model.classes)
        assert np.array_equal(model._n, again._n)
        assert np.array_equal(model._spelled, again._spelled)


def test_a_word_joins_the_class_of_its_letters():
    words = ["laming", "toring", "siling", "vening", "lamed", "tored", "siled", "daping"]
    # Every word has the same neighbours, so only letters differ.
    counts = count_words(lambda: [[word] for word in words], 2, 1)
    model = Classes(counts, 2)
    model.assign(np.array([0] * 4 + [1] * 4))
    assert model.move(7) and model.classes.tolist() == [0] * 4 + [1] * 3 + [0]
    assert not any(model.move(word) for word in range(8))


def test_a_killed_exchange_goes_on(tmp_path, monkeypatch):
    counts = count_words(lambda: sentences(5), 4, 1)
    whole = clark_clusters(counts, 4, passes=4)
    assert whole == clark_clusters(counts, 4, passes=4)
    path = tmp_path / "state"
    move = Classes.move
    n = 0

    def killed(self, word):
        nonlocal n
        n += 1
        if n > len(counts.words) + 2:
            raise KeyboardInterrupt
        return move(self, word)

    monkeypatch.setattr(Classes, "move", killed)
    with pytest.raises(KeyboardInterrupt):
        clark_clusters(counts, 4, passes=4, state=Checkpoint(path, "a"))
    monkeypatch.setattr(Classes, "move", move)
    assert int(Checkpoint(path, "a").load()["passes"]) == 1
    assert clark_clusters(counts, 4, passes=4, state=Checkpoint(path, "a")) == whole


@pytest.mark.parametrize("content", [b"", b"PK", b"[" * 1000])
def test_a_damaged_state_is_no_state(tmp_path, content):
    (tmp_path / "state").write_bytes(content)
    assert Checkpoint(tmp_path / "state", "a").load() == {}
