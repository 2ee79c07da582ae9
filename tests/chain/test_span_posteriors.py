"""Posterior probabilities of spans against enumeration."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import enumeration

from bcrf.chain import Potentials, span_candidates, span_posteriors
from bcrf.chain.span_posteriors import stretch_posteriors
from bcrf.schemes import BIES, BILUO, BIO

pytestmark = pytest.mark.usefixtures("processor")

LABELS = ["A", "B"]


@st.composite
def batches(draw):
    scheme = draw(st.sampled_from([BIO, BILUO, BIES]))
    labels = LABELS if scheme is BIO else LABELS[:1]
    lengths = np.array(draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)), "int32")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    t, n = len(scheme.tags(labels)), int(lengths.sum())
    shared = draw(st.booleans())
    unary = rng.normal(0, 2, (n, t))
    stops = lengths.cumsum()
    unary[np.ix_((stops - lengths)[lengths > 0], ~scheme.constraints(labels).start)] = -np.inf
    unary[np.ix_((stops - 1)[lengths > 0], ~scheme.constraints(labels).end)] = -np.inf
    transitions = rng.normal(0, 1, (t, t) if shared else (n, t, t))
    transitions[..., ~scheme.constraints(labels).transitions] = -np.inf
    return scheme, labels, Potentials(unary, transitions, lengths)


def enumerated(scheme, labels, batch):
    """Return the probability of every possible span, by (start, end, label index)."""
    tags = scheme.tags(labels)
    totals = defaultdict(float)
    for rows, u, w in enumeration.sequences(batch):
        paths = enumeration.labelings(u, w)[0]
        for path, p in zip(paths, enumeration.probabilities(u, w), strict=True):
            if p > 0:
                for start, end, label in scheme.spans([tags[t] for t in path]):
                    totals[rows.start + start, rows.start + end, labels.index(label)] += p
    return dict(totals)


@given(batches())
def test_posteriors_are_enumerated(problem):
    scheme, labels, batch = problem
    expected = enumerated(scheme, labels, batch)
    starts, ends, types = np.array(list(expected), dtype="int64").reshape(-1, 3).T
    found = span_posteriors(batch, scheme.span_tags(labels), starts, ends, types)
    np.testing.assert_allclose(found, list(expected.values()), atol=1e-9)


@given(batches(), st.data())
def test_candidates_are_enumerated(problem, data):
    scheme, labels, batch = problem
    all_spans = enumerated(scheme, labels, batch)
    # A threshold just below a span's probability leaves the search no slack.
    near = [p * (1 - 1e-6) for p in all_spans.values() if p > 0.01]
    threshold = data.draw(st.sampled_from([0.001, 0.05, 0.3, 0.9, *near]))
    # Rounding can put a span on either side of the threshold.
    expected = {span: p for span, p in all_spans.items() if p >= threshold + 1e-9}
    allowed = {span for span, p in all_spans.items() if p >= threshold - 1e-9}
    found = span_candidates(batch, scheme.span_tags(labels), threshold)
    spans = list(zip(*(part.tolist() for part in found[:3]), strict=True))
    assert spans == sorted(set(spans))
    assert set(expected) <= set(spans) <= allowed
    for span, p in zip(spans, found.probabilities.tolist(), strict=True):
        assert p == pytest.approx(all_spans[span], abs=1e-9)


@pytest.mark.parametrize("scheme", [BIO, BILUO])
def test_long_spans_of_large_scores(scheme):
    """One entity of a thousand tokens. The exponential of its score overflows."""
    tags = scheme.span_tags(["A"])
    unary = np.zeros((1000, len(scheme.tags(["A"]))), "float32")
    unary[:, tags.inside[0]] = 50
    unary[0, tags.first[0]] = unary[-1, tags.last[0]] = 100
    unary[0, ~scheme.constraints(["A"]).start] = unary[-1, ~scheme.constraints(["A"]).end] = -np.inf
    transitions = np.where(scheme.constraints(["A"]).transitions, 0, -np.inf).astype("float32")
    batch = Potentials(unary, transitions, np.array([1000], "int32"))
    found = span_candidates(batch, tags, 0.5)
    assert [part.tolist() for part in found[:3]] == [[0], [1000], [0]]
    assert found.probabilities[0] == pytest.approx(1, abs=1e-3)


def test_empty_batches():
    batch = Potentials(np.zeros((0, 3)), np.zeros((3, 3)), np.zeros(1, "int32"))
    tags, none = BIO.span_tags(["A"]), np.zeros(0, "int64")
    assert span_posteriors(batch, tags, none, none, none).shape == (0,)
    assert [len(part) for part in span_candidates(batch, tags, 0.1)] == [0, 0, 0, 0]


@pytest.mark.parametrize("threshold", [0, -1, 1.5, float("nan")])
def test_invalid_thresholds_are_named(threshold):
    batch = Potentials(np.zeros((1, 3)), np.zeros((3, 3)), np.ones(1, "int32"))
    with pytest.raises(ValueError, match=r"threshold must be in \(0, 1\]"):
        span_candidates(batch, BIO.span_tags(["A"]), threshold)


def test_infeasible_sequences_are_named():
    unary = np.zeros((2, 3))
    unary[1] = -np.inf
    batch = Potentials(unary, np.zeros((3, 3)), np.ones(2, "int32"))
    with pytest.raises(ValueError, match="sequence 1 has no allowed labeling"):
        span_candidates(batch, BIO.span_tags(["A"]), 0.5)


@settings(max_examples=15)
@given(batches(), st.data())
def test_stretches_of_one_tag_are_enumerated(problem, data):
    scheme, labels, batch = problem
    tag = data.draw(st.integers(0, len(scheme.tags(labels)) - 1))
    expected = defaultdict(float)
    for rows, u, w in enumeration.sequences(batch):
        n = rows.stop - rows.start
        bounds = [(start, end) for end in range(n + 1) for start in range(end)]
        expected.update({(rows.start + a, rows.start + b): 0.0 for a, b in bounds})
        paths = enumeration.labelings(u, w)[0]
        for path, p in zip(paths, enumeration.probabilities(u, w), strict=True):
            for a, b in bounds:
                if all(t == tag for t in path[a:b]):
                    expected[rows.start + a, rows.start + b] += p
    starts, ends = np.array(list(expected), dtype="int64").reshape(-1, 2).T
    found = np.exp(stretch_posteriors(batch, tag, starts, ends))
    np.testing.assert_allclose(found, list(expected.values()), atol=1e-9)
