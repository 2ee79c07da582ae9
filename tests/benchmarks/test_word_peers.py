"""Tests of the benchmark of word segmentation."""

import pytest

from benchmarks.word_peers import f_of_words


def test_words_are_compared_by_their_offsets():
    gold = [["ab", "c"], ["d", "ef"]]
    assert f_of_words(gold, gold) == 1
    # "c" is right, and "ab" is cut. "def" is one word in place of two.
    assert f_of_words(gold, [["a", "b", "c"], ["def"]]) == pytest.approx(2 * 1 / (4 + 4))
    assert f_of_words([[]], [[]]) == 0
