import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.sapo.evaluate import find_spans, span_f
from spacy_bcrf.annotation.schemes import read_spans

TAGS = ["B-X", "B-Y", "I-X", "I-Y", "O"]


@given(st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=5))
def test_finds_the_spans_that_the_scheme_reads(sequences):
    lengths = np.array([len(ids) for ids in sequences], dtype="int32")
    flat = np.array([i for ids in sequences for i in ids], dtype="int64")
    expected, at = [], 0
    for ids in sequences:
        spans = read_spans([TAGS[i] for i in ids])
        expected += [(at + start, at + end, "XY".index(label)) for start, end, label in spans]
        at += len(ids)
    starts, ends, labels = find_spans(TAGS, flat, lengths)
    names = sorted({tag.partition("-")[2] for tag in TAGS})
    found = [
        (start, end, "XY".index(names[label]))
        for start, end, label in zip(starts.tolist(), ends.tolist(), labels.tolist(), strict=True)
    ]
    assert found == expected


def test_f():
    gold = np.array([0, 2, 4, 1])
    assert span_f(TAGS, gold, gold, np.array([4])) == 100
    assert span_f(TAGS, gold, np.array([0, 4, 4, 1]), np.array([4])) == 50
    assert span_f(TAGS, gold, np.array([4, 4, 4, 4]), np.array([4])) == 0
