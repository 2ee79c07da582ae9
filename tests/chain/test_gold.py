"""Gold annotation as a lattice."""

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from bcrf import kernels
from bcrf.chain import Potentials
from bcrf.chain.gold import GoldLattice


def batch():
    return Potentials(np.zeros((5, 3)), np.zeros((3, 3)), np.array([2, 0, 3], "int32"))


@pytest.mark.parametrize(
    "gold, message",
    [
        (np.zeros(4, "int32"), "gold must be int32"),
        (np.zeros((5, 2), bool), r"gold of allowed tags must be \(5, 3\)"),
        (np.zeros(5), "gold must be int32"),
        (np.array([0, 0, 0, 3, 0], "int32"), "gold has tag 3 in sequence 2; tags go from 0 to 2"),
        (np.array([0, -2, 0, 0, 0], "int32"), "gold has tag -2 in sequence 0"),
        ([0, 0, 0, 0, 0], "potentials are numpy arrays, gold is not"),
    ],
)
def test_invalid_gold_is_named(gold, message):
    with pytest.raises(ValueError, match=message):
        GoldLattice(batch(), gold)


@pytest.mark.parametrize(
    "gold, unknown",
    [
        ([0, 1, 2, 0, 1], [False, True, False]),
        ([-1, -1, 2, -1, -1], [True, True, False]),
        ([-1, 0, -1, -1, -1], [False, True, True]),
    ],
)
def test_unknown_sequences(gold, unknown):
    gold = np.array(gold, "int32")
    sets = (gold[:, None] == np.arange(3)) | (gold < 0)[:, None]
    for form in (gold, sets):
        lattice = GoldLattice(batch(), form)
        np.testing.assert_array_equal(lattice.allowed, sets)
        assert lattice.unknown.tolist() == unknown
    assert GoldLattice(batch(), sets).tags is None
    is_complete = GoldLattice(batch(), gold).tags is not None
    assert is_complete == (gold >= 0).all()


@given(problems.potentials(), st.data())
def test_best_is_enumerated(potentials, data):
    allowed = data.draw(problems.gold_sets(potentials))
    tags, scores = GoldLattice(potentials, allowed).best()
    assert allowed[np.arange(len(tags)), tags].all()
    expected = enumeration.viterbi_scores(potentials.restrict(allowed))
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    np.testing.assert_allclose(kernels.path_scores(*potentials.arrays, tags), expected, atol=1e-9)
    complete, scores = GoldLattice(potentials, tags).best()
    np.testing.assert_array_equal(complete, tags)
    np.testing.assert_allclose(scores, expected, atol=1e-9)
