import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from spacy_bcrf.chain import CRF, Potentials, feasible, minimum_risk, viterbi

pytestmark = pytest.mark.usefixtures("processor")


@given(problems.potentials())
def test_viterbi_enumerated(batch):
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


def test_of_equal_labelings_the_lower_tags_win():
    batch = Potentials(np.zeros((5, 3)), np.zeros((3, 3)), np.array([5], "int32"))
    assert viterbi(batch)[0].tolist() == [0] * 5


@given(problems.potentials())
def test_minimum_risk_enumerated(batch):
    marginals = CRF().marginals(batch).unary
    tags = minimum_risk(batch, marginals)
    gains = []
    for rows, u, w in enumeration.sequences(batch):
        paths, scores = enumeration.labelings(u, w)
        gain = marginals[rows][np.arange(len(u)), paths].sum(axis=1)
        gains.append(gain[scores > -np.inf].max())
        found = marginals[rows][np.arange(len(u)), tags[rows]].sum()
        assert found == pytest.approx(gains[-1], abs=1e-9)
    assert (enumeration.score(batch, tags) > -np.inf).all()


def test_feasible_says_which():
    transitions = np.array([[0.0, -np.inf], [0.0, 0.0]])
    batch = Potentials(np.zeros((5, 2)), transitions, np.array([2, 0, 3], "int32"))
    assert feasible(batch).tolist() == [True, True, True]
    gold = np.array([1, 0, 0, -1, 1], "int32")
    assert feasible(batch, gold).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="sequence 2"):
        viterbi(batch, gold)
