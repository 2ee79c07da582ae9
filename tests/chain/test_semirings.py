"""The axioms of the semirings, and the totals of their forward passes."""

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from spacy_bcrf.chain import CRF, viterbi
from spacy_bcrf.chain.semirings import COUNTING, EXPECTATION, LOG, MAX, forward

floats = st.floats(-5, 5) | st.just(-float("inf"))
counts = st.integers(0, 100)
pairs = st.tuples(st.floats(0, 5), st.floats(-5, 5))
ELEMENTS = {LOG: floats, MAX: floats, COUNTING: counts, EXPECTATION: pairs}


def same(x, y):
    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("semiring", ELEMENTS, ids=lambda s: s.name)
@given(data=st.data())
def test_axioms(semiring, data):
    x, y, z = (data.draw(ELEMENTS[semiring]) for _ in range(3))
    plus, times, zero, one = semiring.plus, semiring.times, semiring.zero, semiring.one
    same(plus(x, y), plus(y, x))
    same(plus(plus(x, y), z), plus(x, plus(y, z)))
    same(times(times(x, y), z), times(x, times(y, z)))
    same(times(x, plus(y, z)), plus(times(x, y), times(x, z)))
    same(times(plus(x, y), z), plus(times(x, z), times(y, z)))
    same(plus(x, zero), x)
    for product in (times(x, one), times(one, x)):
        same(product, x)
    for product in (times(x, zero), times(zero, x)):
        same(product, zero)


@given(problems.potentials(max_tags=3, max_length=5))
def test_totals_of_the_forward_algorithm(batch):
    same(forward(LOG, batch), CRF().log_partition(batch))
    same(forward(MAX, batch), viterbi(batch)[1])
    n_allowed = [
        int((enumeration.labelings(u, w)[1] > -np.inf).sum())
        for _, u, w in enumeration.sequences(batch)
    ]
    assert forward(COUNTING, batch) == n_allowed
