"""Feasibility of gold annotation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_bcrf import chain
from spacy_bcrf.chain import Constraints, Potentials
from spacy_bcrf.pipeline.gold import feasible

FORBIDDEN = np.float32("-inf")


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([0.3, 0.6, 0.9]))
def test_feasible_gold_has_a_labeling(seed, n_tags, share):
    """The Viterbi algorithm finds a labeling with zero scores under the same constraints."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, size=4).astype("int32")
    allowed = [rng.random((length, n_tags)) < share for length in lengths]
    for tags in allowed[::2]:
        # Complete gold.
        tags[:] = np.eye(n_tags, dtype=bool)[rng.integers(0, n_tags, len(tags))]
    limits = ((n_tags, n_tags), n_tags, n_tags)
    constraints = Constraints(*(rng.random(shape) < share for shape in limits))
    potentials = Potentials(
        np.where(np.concatenate(allowed), np.float32(0), FORBIDDEN),
        np.zeros((n_tags, n_tags), dtype="float32"),
        lengths,
    )
    assert feasible(allowed, None) == chain.feasible(potentials).tolist()
    expected = chain.feasible(potentials.constrain(constraints)).tolist()
    assert feasible(allowed, constraints) == expected
