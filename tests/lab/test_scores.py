"""F of spans and accuracy of tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrf.schemes import read_spans
from lab.scores import accuracy, span_f

TAGS = st.lists(st.sampled_from(["B-X", "B-Y", "I-X", "I-Y", "O"]), max_size=8)
SENTENCES = st.lists(
    TAGS.flatmap(lambda tags: st.tuples(st.just(tags), st.permutations(tags))), max_size=5
)


@given(SENTENCES)
def test_f_is_the_harmonic_mean_of_precision_and_recall(sentences):
    gold, found = [one for one, _ in sentences], [other for _, other in sentences]
    spans = [(read_spans(one), read_spans(other)) for one, other in sentences]
    right = sum(span in predicted for expected, predicted in spans for span in expected)
    if not right:
        assert span_f(gold, found) == 0
        return
    recall = right / sum(len(expected) for expected, _ in spans)
    precision = right / sum(len(predicted) for _, predicted in spans)
    expected_f = 200 * precision * recall / (precision + recall)
    assert span_f(gold, found) == pytest.approx(expected_f)


def test_f_of_single_sentences():
    gold = [["B-X", "I-X", "O", "B-Y"]]
    assert span_f(gold, gold) == 100
    assert span_f(gold, [["B-X", "O", "O", "B-Y"]]) == 50
    assert span_f(gold, [["O", "O", "O", "O"]]) == 0


def test_spans_end_with_their_sentence():
    split, joined = [["B-X"], ["I-X"]], [["B-X", "I-X"]]
    assert span_f(split, split) == span_f(joined, joined) == 100
    assert span_f([["B-X"], ["O"]], split) == pytest.approx(200 / 3)


def test_accuracy():
    assert accuracy([["A", "B"], ["C", "D"]], [["A", "C"], ["C", "D"]]) == 75
    assert accuracy([], []) == 0
