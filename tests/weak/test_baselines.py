"""Baselines of merged votes."""

import numpy as np

from bcrf.chain.votes import Votes
from spacy_bcrf.weak.baselines import take_majority, take_plurality

LENGTHS = np.array([4, 4], "int32")


def as_votes(*spans):
    return Votes.of(spans, np.ones(8, dtype=bool), [[1, 0], [0, 1], [1, 1]])


def test_most_votes_by_span_and_by_token():
    one, two = as_votes((1, 3, 0), (3, 4, 1), (4, 5, 1)), as_votes((1, 3, 0), (5, 7, 1))
    three = as_votes((1, 2, 1), (3, 4, 2), (4, 6, 0))
    found = take_plurality([one, two, three])
    assert found == {(1, 3, 0), (3, 4, 1), (4, 5, 1), (5, 7, 1)}
    # Runs end with the document, and silent sources abstain.
    assert take_majority([one, two, three], LENGTHS, 2) == {
        (1, 3, 0),
        (3, 4, 1),
        (4, 6, 0),
        (6, 7, 1),
    }
    assert take_majority([one, as_votes()], LENGTHS, 2) == {(1, 3, 0), (3, 4, 1), (4, 5, 1)}
