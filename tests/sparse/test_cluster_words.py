"""Skip-gram vectors: likeness of words, and states."""

import numpy as np
import pytest

from spacy_bcrf.sparse.cluster_words import train_vectors
from spacy_bcrf.sparse.word_counts import Checkpoint

pytest.importorskip("gensim", reason="needs the extra clusters")
LINES = [[a, f"of{a}", b, f"of{b}"] for a in "abcdefgh" for b in "abcdefgh"] * 3


def test_a_killed_training_goes_on(tmp_path):
    n = 0

    def killed():
        nonlocal n
        n += 1
        if n == 4:  # vocabulary, two epochs, and this one
            raise KeyboardInterrupt
        return LINES

    state = Checkpoint(tmp_path / "state", "a")
    with pytest.raises(KeyboardInterrupt):
        train_vectors(killed, 8, epochs=4, state=state)
    saved = state.load()
    assert int(saved["epochs"]) == 2 and saved["vectors"].shape == saved["hidden"].shape == (16, 8)
    n = 10
    words, vectors = train_vectors(killed, 8, epochs=4, state=state)
    assert n == 13 and len(words) == len(vectors) == 16 and np.isfinite(vectors).all()
    assert not state.load()


def test_training_is_deterministic_and_needs_words():
    found = [train_vectors(lambda: LINES, 8, epochs=2) for _ in range(2)]
    assert found[0][0] == found[1][0] and np.array_equal(found[0][1], found[1][1])
    with pytest.raises(ValueError, match="no word occurs at least 1000 times"):
        train_vectors(lambda: LINES, 8, min_freq=1000)
