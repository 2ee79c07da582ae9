"""True tags and reliability from several annotators."""

import numpy as np
import pytest

from bcrf.chain import CRF, viterbi
from bcrf.chain.annotators import Annotation, agreement, estimate_truth
from bcrf.schemes import BIO

LABELS = ["A", "B"]
CONSTRAINTS = BIO.transitions(LABELS), BIO.starts(LABELS), BIO.ends(LABELS)
N_TAGS = len(BIO.tags(LABELS))
ANNOTATORS = [(0.95, 0.98), (0.9, 0.95), (0.8, 0.95), (0.6, 0.7), (0.5, 0.5)]
"""Share of entities that an annotator finds, and share of these with the right label."""


def draw_crowd(n_docs=400, share=0.6, seed=0):
    """Return true tags, lengths, and annotations by annotators of known reliability."""
    rng = np.random.default_rng(seed)
    lengths = np.full(n_docs, 12, "int32")
    true = np.zeros((n_docs, 12), int)
    seen = [np.zeros(n_docs, bool) for _ in ANNOTATORS]
    by_annotator = [true.copy() for _ in ANNOTATORS]
    for d in range(n_docs):
        for at in (1, 6):
            length, label = rng.integers(1, 4), rng.integers(0, 2)
            for tags, (recall, right) in zip(
                [true, *by_annotator], [(1, 1), *ANNOTATORS], strict=True
            ):
                if rng.random() < recall:
                    own = label if rng.random() < right else 1 - label
                    tags[d, at] = 1 + 2 * own
                    tags[d, at + 1 : at + length] = 2 + 2 * own
        for of_doc in seen:
            of_doc[d] = rng.random() < share
    annotations = []
    for tags, of_doc in zip(by_annotator, seen, strict=True):
        tokens = np.flatnonzero(np.repeat(of_doc, 12))
        annotations.append(Annotation(tokens, np.eye(N_TAGS)[tags.ravel()[tokens]]))
    return true.ravel(), lengths, annotations


def test_known_reliabilities_are_found():
    _, lengths, annotations = draw_crowd()
    found = estimate_truth(annotations, lengths, *CONSTRAINTS)
    truth = CRF().marginals(found.chain)
    for annotation, (known, right) in zip(annotations, ANNOTATORS, strict=True):
        recall, precision = agreement(truth, annotation)
        assert recall == pytest.approx(known * right, abs=0.06)
        assert precision == pytest.approx(right, abs=0.06)
    # The confusion of the first tag of A: found as A, as B, or not.
    for confusion, (known, right) in zip(found.confusions, ANNOTATORS, strict=True):
        expected = [1 - known, known * right, known * (1 - right)]
        np.testing.assert_allclose(confusion[1, [0, 1, 3]], expected, atol=0.1)


def test_the_estimate_is_better_than_the_majority_and_than_each_annotator():
    true, lengths, annotations = draw_crowd(share=1)
    votes = np.zeros((len(true), N_TAGS))
    for tokens, tags in annotations:
        votes[tokens] += tags
    found, _ = viterbi(estimate_truth(annotations, lengths, *CONSTRAINTS).chain)
    errors = (found != true).mean()
    assert errors < 0.6 * (votes.argmax(axis=1) != true).mean()
    of_best = (annotations[0].tags.argmax(axis=1) != true[annotations[0].tokens]).mean()
    assert errors < of_best


def test_the_posterior_never_decreases_and_labelings_are_valid():
    _, lengths, annotations = draw_crowd(40)
    uncertain = [Annotation(a.tokens, a.tags * 0.7 + 0.3 / N_TAGS) for a in annotations[:2]]
    found = estimate_truth(uncertain + annotations[2:], lengths, *CONSTRAINTS, tolerance=0)
    values = np.array(found.log_posteriors)
    assert len(values) > 5 and (np.diff(values) > -1e-7 * abs(values[1:])).all()
    tags, scores = viterbi(found.chain)
    assert np.isfinite(scores).all()
    BIO.decode_ids(tags, lengths)


def test_bad_arguments():
    lengths = np.array([2], "int32")
    with pytest.raises(ValueError, match="at least one annotator"):
        estimate_truth([], lengths, *CONSTRAINTS)
    with pytest.raises(ValueError, match=r"tags must be \(2, 5\), got \(2, 3\)"):
        estimate_truth([Annotation(np.arange(2), np.ones((2, 3)))], lengths, *CONSTRAINTS)
