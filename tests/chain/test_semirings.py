"""The axioms of the semirings, and the totals of their forward passes."""

import math
import re
from dataclasses import replace

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from bcrf.chain import CRF, Potentials, dijkstra, entropy, viterbi
from bcrf.chain.semirings import (
    BOTTLENECK,
    COUNTING,
    EXPECTATION,
    LOG,
    MAX,
    MIN,
    Semiring,
    forward,
)

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
# Not in the package. The elements are probabilities, and the total is that of the best labeling.
VITERBI = Semiring("viterbi", 0.0, 1.0, max, lambda x, y: x * y, math.exp)


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


@pytest.mark.parametrize(
    "semiring", [MAX, replace(MAX, name="own"), MIN, BOTTLENECK, VITERBI], ids=lambda s: s.name
)
@given(batch=small)
def test_dijkstra_finds_the_total(semiring, batch):
    """The total of a selective semiring is the value of the best labeling, which is found too."""
    tags, found = dijkstra(batch, semiring)
    same(found, forward(semiring, batch))
    one_hot = np.eye(batch.unary.shape[1], dtype=bool)[tags]
    same(found, forward(semiring, batch.restrict(one_hot)))


@pytest.mark.parametrize("semiring", [MIN, BOTTLENECK], ids=lambda s: s.name)
@given(batch=large)
def test_dijkstra_with_large_scores(semiring, batch):
    same(dijkstra(batch, semiring)[1], forward(semiring, batch))


WRONG = [
    (LOG, "plus is not selective: plus(0.0, 0.0) = 0.69"),
    (COUNTING, "plus is not selective: plus(1, 1) = 2, which is neither"),
    (EXPECTATION, "plus is not selective: plus((0.0, 0.0), (0.0, 0.0)) = "),
    (
        replace(MAX, plus=lambda x, y: y if x == -np.inf else x),
        "plus is not commutative: plus(0.0, -1.0) = 0.0, plus(-1.0, 0.0) = -1.0",
    ),
    (
        # The largest value wins, but 2 loses against 0.
        replace(MAX, plus=lambda x, y: max(x, y) if {x, y} != {0.0, 2.0} else 0.0),
        "plus is not associative: for ",
    ),
    (replace(MAX, times=lambda x, y: x + y - (x == y == 2.0)), "times is not associative: for "),
    (replace(BOTTLENECK, times=lambda x, y: min(x, -y)), "one is not neutral: times(one, -inf)"),
    (
        replace(MAX, zero=-1e9),
        "lift does not map -inf, a forbidden arc, to zero: lift(-inf) = -inf",
    ),
    (
        replace(MAX, zero=-3.0, lift=lambda x: max(x, -3.0)),
        "zero does not annihilate: times(zero, -3.0) = -6.0",
    ),
    (
        replace(VITERBI, lift=lambda score: max(score, -1.0) if score > -np.inf else 0.0),
        "zero is not neutral: plus(zero, -1.0) = 0.0",
    ),
    (
        # A negative factor reverses the order.
        Semiring(
            "signed",
            -np.inf,
            1.0,
            max,
            lambda x, y: x * y if min(x, y) > -np.inf else -np.inf,
            lambda score: score,
        ),
        "times is not distributive: for ",
    ),
    (
        replace(VITERBI, lift=lambda score: max(score, 0.0)),
        "times is not superior: one = 1.0, but plus(one, 2.0) = 2.0",
    ),
]


@pytest.mark.parametrize("semiring, violated", WRONG)
def test_dijkstra_names_the_violated_axiom(semiring, violated):
    unary = np.array([[0.0, 1.0], [2.0, -1.0]])
    batch = Potentials(unary, np.array([[0.5, 0.0], [1.0, 0.0]]), np.array([2], "int32"))
    start = f"best-first search is wrong for the {semiring.name} semiring: {violated}"
    with pytest.raises(ValueError, match=re.escape(start)):
        dijkstra(batch, semiring)


@pytest.mark.parametrize("semiring", [MAX, MIN, BOTTLENECK], ids=lambda s: s.name)
def test_dijkstra_of_no_and_of_forbidden_labelings(semiring):
    empty = Potentials(np.zeros((0, 2)), np.zeros((2, 2)), np.array([0], "int32"))
    tags, totals = dijkstra(empty, semiring)
    assert (tags.tolist(), totals.tolist()) == ([], [semiring.one])
    unary = np.array([[0.0, 0.0], [-np.inf, -np.inf]])
    batch = Potentials(unary, np.zeros((2, 2)), np.array([0, 2], "int32"))
    with pytest.raises(ValueError, match="sequence 1 has no allowed labeling"):
        dijkstra(batch, semiring)
