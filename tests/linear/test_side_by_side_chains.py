"""Sparse linear chains side by side: two equal chains learn what one chain learns."""

import numpy as np
import pytest

from bcrf.chain import Constraints, Potentials
from bcrf.chain.side_by_side import rows_by_chain
from bcrf.linear.learner import OnlineLearner, OnlineSettings
from bcrf.linear.rows import Rows

T, F = 5, 30
LENGTHS = np.array([4, 1, 6, 3], dtype="int32")
N = int(LENGTHS.sum())


def random_rows(rng) -> Rows:
    counts = rng.integers(0, 5, N)
    starts = np.concatenate([[0], counts.cumsum()]).astype("int64")
    return Rows(rng.integers(0, F, starts[-1]).astype("int32"), starts)


def twice(array):
    """Return the rows of each sequence twice: of two equal chains."""
    return np.concatenate([part for x in np.split(array, LENGTHS.cumsum()[:-1]) for part in (x, x)])


@pytest.mark.parametrize("gold", ["complete", "partial"])
@pytest.mark.parametrize("objective", ["crf", "bcrf", "mean_field", "sapo", "perceptron", "mira"])
def test_two_equal_chains_learn_the_weights_of_one(objective, gold):
    rng = np.random.default_rng(1)
    rows, tags = random_rows(rng), rng.integers(0, T, N).astype("int32")
    if gold == "partial" and objective != "mean_field":
        tags = np.where(rng.random(N) < 0.4, -1, tags).astype("int32")
    lattice = np.ones((N, T), dtype=bool)
    lattice[0, (tags[0] + 1) % T] = False
    settings = OnlineSettings(objective, l2=0.1, l1=0.01)
    one = OnlineLearner(T, F, settings, len(LENGTHS))
    two = OnlineLearner(2 * T, F, settings, len(LENGTHS), n_chains=2)
    allowed = np.ones((T, T), dtype=bool)
    allowed[0, 3] = (tags[:-1] == 0)[tags[1:] == 3].any()
    ends = np.ones(T, dtype=bool)
    for learner in (one, two):
        learner.constrain(Constraints(allowed, ends, ends))
    for _ in range(4):
        loss = one.step(rows, LENGTHS, tags, lattice)
        both = two.step(rows, LENGTHS, twice(tags), twice(lattice))
        assert both == pytest.approx(2 * loss, rel=1e-4, abs=1e-5)
    weights, found = one.weights[:, :T], two.weights
    assert np.abs(weights).max() > 0.05
    assert found[:T, :T] == pytest.approx(weights[:T], abs=1e-5)
    for first in (0, T):
        assert found[T:, first : first + T] == pytest.approx(weights[T:], abs=1e-5)
    expected = one.potentials(rows, LENGTHS).unary
    assert two.current_potentials(rows, LENGTHS).unary.shape == (2 * N, T)
    assert two.potentials(rows, LENGTHS).unary == pytest.approx(twice(expected), abs=1e-4)


def test_gradient_steps_reach_the_weights_of_their_chain():
    rng = np.random.default_rng(0)
    rows = random_rows(rng)
    two = OnlineLearner(2 * T, F, OnlineSettings("crf", averaged=False), 1, n_chains=2)
    gradient = rng.normal(size=(2 * N, T)).astype("float32")
    of_second = np.arange(2 * N) >= 0
    of_second[rows_by_chain(LENGTHS, 2).argsort()[::2]] = False  # the first chain's rows
    gradient[~of_second] = 0
    lengths = LENGTHS.repeat(2)
    two.descend(rows, LENGTHS, Potentials(gradient, np.zeros((T, T), "float32"), lengths))
    weights = two.weights[T:]
    assert not weights[:, :T].any() and weights[:, T : 2 * T].any()


def test_impossible_numbers_of_chains_are_refused():
    with pytest.raises(ValueError, match="5 tags cannot be shared by 2 chains"):
        OnlineLearner(5, F, OnlineSettings("crf"), n_chains=2)
    with pytest.raises(ValueError, match=r"order = 2 .* but there are 2 chains"):
        OnlineLearner(10, F, OnlineSettings("crf", order=2), n_chains=2)
