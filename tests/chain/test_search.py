"""Viterbi, feasibility and minimum-risk decoding against enumeration."""

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from bcrf.chain import Potentials, feasible, minimum_risk, viterbi

pytestmark = pytest.mark.usefixtures("processor")


@given(problems.potentials())
def test_viterbi_is_enumerated(batch):
    tags, scores = viterbi(batch)
    assert tags.dtype == np.int32
    np.testing.assert_allclose(scores, enumeration.viterbi_scores(batch), atol=1e-9)
    np.testing.assert_allclose(enumeration.score(batch, tags), scores, atol=1e-9)


@given(problems.potentials(), st.data())
def test_viterbi_under_partial_gold(batch, data):
    allowed = data.draw(problems.gold_sets(batch))
    tags, scores = viterbi(batch, allowed)
    assert allowed[np.arange(len(tags)), tags].all()
    best = enumeration.viterbi_scores(batch.restrict(allowed))
    np.testing.assert_allclose(scores, best, atol=1e-9)


def test_ties_go_to_the_lower_tags():
    batch = Potentials(np.zeros((5, 3)), np.zeros((3, 3)), np.array([5], "int32"))
    assert viterbi(batch)[0].tolist() == [0] * 5


def assert_minimum_risk(batch, rng):
    marginals = rng.dirichlet(np.ones(batch.unary.shape[1]), len(batch.unary))
    tags = minimum_risk(batch, marginals)
    for rows, u, w in enumeration.sequences(batch):
        paths, scores = enumeration.labelings(u, w)
        gains = marginals[rows][np.arange(len(u)), paths].sum(axis=1)
        found = marginals[rows][np.arange(len(u)), tags[rows]].sum()
        assert found == pytest.approx(gains[scores > -np.inf].max(), abs=1e-9)
    assert (enumeration.score(batch, tags) > -np.inf).all()


@given(problems.potentials(), st.integers(0, 2**32 - 1))
def test_minimum_risk_is_enumerated(batch, seed):
    assert_minimum_risk(batch, np.random.default_rng(seed))


def test_minimum_risk_avoids_forbidden_transitions():
    rng = np.random.default_rng(0)
    lengths = np.full(20, 6, "int32")
    for _ in range(5):
        transitions = np.where(rng.random((3, 3)) < 0.4, -np.inf, 0)
        transitions[[0, 1, 2], [1, 2, 0]] = 0
        assert_minimum_risk(Potentials(np.zeros((120, 3)), transitions, lengths), rng)


@given(problems.potentials(), st.integers(0, 2**32 - 1))
def test_feasible_is_enumerated(batch, seed):
    rng = np.random.default_rng(seed)
    allowed = rng.random(batch.unary.shape) < 0.4
    best = enumeration.viterbi_scores(batch.restrict(allowed))
    assert feasible(batch, allowed).tolist() == (best > -np.inf).tolist()
    tags = rng.integers(0, batch.unary.shape[1], len(batch.unary)).astype("int32")
    expected = enumeration.score(batch, tags) > -np.inf
    assert feasible(batch, tags).tolist() == expected.tolist()


def test_infeasible_sequences_are_named():
    transitions = np.array([[0.0, -np.inf], [0.0, 0.0]])
    batch = Potentials(np.zeros((5, 2)), transitions, np.array([2, 0, 3], "int32"))
    assert feasible(batch).tolist() == [True, True, True]
    gold = np.array([1, 0, 0, -1, 1], "int32")
    assert feasible(batch, gold).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="sequence 2"):
        viterbi(batch, gold)
