"""Sub-words and tokens, and windows of long texts."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_bcrf.scores.subwords import find_pairs, plan_windows, pool_subwords

NLP = spacy.blank("xx")
LOG = np.log(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], dtype="float32"))


def make_doc(*words):
    return Doc(NLP.vocab, words=list(words))


@pytest.mark.parametrize(
    ("words", "offsets", "pairs"),
    [
        # One token of three sub-words, and whitespace that a tokenizer adds to the next word.
        (
            ("Leverkusen", "won"),
            [(0, 4), (4, 7), (7, 10), (10, 14)],
            [(0, 0), (0, 1), (0, 2), (1, 3)],
        ),
        # An emoji of several code points in two sub-words, and a lost one.
        (("👩🏽", "x"), [(0, 1), (1, 2), (3, 4)], [(0, 0), (0, 1), (1, 2)]),
        (("😀", "x"), [(2, 3)], [(1, 0)]),
        # A sub-word of several tokens: CJK words of one character.
        (("東", "京"), [(0, 3)], [(0, 0), (1, 0)]),
        # A prefix without a character.
        (("a",), [(0, 0), (0, 1)], [(0, 1)]),
        (("a",), [], []),
    ],
)
def test_pairs_share_a_character(words, offsets, pairs):
    tokens, subwords = find_pairs(make_doc(*words), offsets)
    assert list(zip(tokens.tolist(), subwords.tolist(), strict=True)) == pairs


@pytest.mark.parametrize(
    ("pooling", "expected"), [("first", 0.1), ("mean", (0.1 + 0.8 + 0.4) / 3), ("max", 0.1)]
)
def test_pooling(pooling, expected):
    doc = make_doc("Leverkusen", "\n")
    values = pool_subwords(doc, [(0, 4), (4, 7), (7, 10)], LOG, pooling)
    assert np.exp(values[0, 1]) == pytest.approx(expected, rel=1e-5)
    assert np.exp(values[0]).sum() == pytest.approx(1, rel=1e-5)
    assert np.isnan(values[1]).all()


@pytest.mark.parametrize("n", [1, 7, 8, 9, 20, 1000])
@pytest.mark.parametrize("overlap", [0, 2, 4])
def test_windows_keep_each_subword_once(n, overlap):
    windows = plan_windows(n, 8, overlap)
    kept = [i for w in windows for i in range(w.first_kept, w.last_kept)]
    assert kept == list(range(n))
    for window in windows:
        assert window.end - window.start <= 8
        assert window.start <= window.first_kept < window.last_kept <= window.end
