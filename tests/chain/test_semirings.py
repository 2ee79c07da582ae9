"""The axioms of the semirings, and the totals of their forward passes."""

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration
from oracles.semirings import BOTTLENECK, COUNTING, EXPECTATION, LOG, MAX, MIN, forward

from bcrf.chain import CRF, entropy, viterbi

floats = st.floats(-5, 5) | st.just(-float("inf"))
counts = st.integers(0, 100)
pairs = st.tuples(st.floats(-5, 5), st.floats(-5, 5)) | st.just(EXPECTATION.zero)
ELEMENTS = {
    LOG: floats,
    MAX: floats,
    MIN: floats.map(lambda x: -x),
    BOTTLENECK: floats | st.just(float("inf")),
    COUNTING: counts,
    EXPECTATION: pairs,
}


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


small = problems.potentials(max_tags=3, max_length=4)
large = problems.potentials(max_tags=3, max_length=4, scale=1e4)


@given(small | large)
def test_totals_of_the_forward_algorithm(batch):
    same(forward(LOG, batch), CRF().log_partition(batch))
    same(forward(MAX, batch), viterbi(batch)[1])
    totals = zip(
        *(forward(s, batch) for s in (COUNTING, MIN, BOTTLENECK, EXPECTATION)),
        enumeration.log_partition(batch),
        enumeration.sequences(batch),
        strict=True,
    )
    for n_allowed, cost, smallest, (log_z, mean), expected, (_, u, w) in totals:
        paths, scores = enumeration.labelings(u, w)
        is_allowed = scores > -np.inf
        assert n_allowed == is_allowed.sum()
        same(cost, scores[is_allowed].min())
        assert smallest == max(smallest_score(u, w, path) for path in paths)
        same(log_z, expected)
        same(mean, -(enumeration.probabilities(u, w) @ np.where(is_allowed, scores, 0)))


@given(small | large)
def test_entropy_by_the_expectation_semiring(batch):
    totals = forward(EXPECTATION, batch)
    np.testing.assert_allclose(entropy(batch), [sum(total) for total in totals], atol=1e-7)


def smallest_score(u, w, path):
    at = np.arange(len(path))
    return min([*u[at, path], *w[at[:-1], path[:-1], path[1:]]], default=np.inf)
