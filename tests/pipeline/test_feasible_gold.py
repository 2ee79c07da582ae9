"""Feasibility of gold annotation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracles.enumeration import viterbi_scores

from bcrf.chain import Constraints, Potentials
from spacy_bcrf.pipeline.gold import find_feasible

FORBIDDEN = np.float32("-inf")


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([0.3, 0.6, 0.9]))
def test_feasible_gold_has_a_labeling(seed, n_tags, share):
    """Enumeration finds a labeling with zero scores under the same constraints."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, size=4).astype("int32")
    allowed = [rng.random((length, n_tags)) < share for length in lengths]
    for tags in allowed[::2]:
        # Complete gold.
        tags[:] = np.eye(n_tags, dtype=bool)[rng.integers(0, n_tags, len(tags))]
    limits = ((n_tags, n_tags), n_tags, n_tags)
    constraints = Constraints(*(rng.random(shape) < share for shape in limits))
    flat = np.concatenate(allowed)
    potentials = Potentials(
        np.where(flat, np.float32(0), FORBIDDEN),
        np.zeros((n_tags, n_tags), dtype="float32"),
        lengths,
    )
    for limits, of_limits in ((None, potentials), (constraints, potentials.constrain(constraints))):
        expected = [bool(np.isfinite(score)) for score in viterbi_scores(of_limits)]
        assert find_feasible(flat, lengths, limits).tolist() == expected


def test_complete_gold_needs_no_viterbi(monkeypatch):
    """Viterbi takes the square of the tags for each token, 36 s for 1,000 labels."""
    monkeypatch.delattr("bcrf.kernels.max_product")
    tags = np.array([1, 0, 2])
    transitions = np.ones((3, 3), dtype=bool)
    transitions[0, 2] = False  # between two sequences
    constraints = Constraints(transitions, np.ones(3, dtype=bool), np.ones(3, dtype=bool))
    lengths = np.array([2, 0, 1], dtype="int32")
    assert find_feasible(np.eye(3, dtype=bool)[tags], lengths, constraints).all()
