"""The constants of the theorem of the SAPO paper."""

import math

import numpy as np
import pytest
from oracles.sparse_learner import Reference

from bcrf.linear.learner import OnlineSettings
from experiments.sapo.convergence import Problem, Theorem, feature_diameters
from lab.dataset import Dataset
from spacy_bcrf.corpora.sentence import Sentence

CRF, SAPO = (OnlineSettings(objective, n=2, averaged=False) for objective in ("crf", "sapo"))
SENTENCES = [
    Sentence(words=["a", "b", "a"], entities=["X", "Y", "X"]),
    Sentence(words=["b"], entities=["Z"]),
    Sentence(words=["a", "a", "c", "b"], entities=["X", "X", "Z", "Y"]),
]


@pytest.fixture(scope="module")
def problem():
    data = Dataset(SENTENCES, ["w[-1..1]", "w[0]|w[1]"], lambda sentence: sentence.entities)
    return Problem(data, l2=0.6)


def test_diameters_are_enumerated(problem):
    data = problem.data
    reference = Reference(3, len(data.dictionary), CRF, 1)
    starts, stops = data.rows.starts, data.lengths.cumsum()
    expected = []
    for stop, length in zip(stops, data.lengths, strict=True):
        tokens = range(stop - length, stop)
        features = [data.rows.rows[starts[i] : starts[i + 1]].tolist() for i in tokens]
        labelings = reference.labelings(reference.potentials(features, None))
        counts = [reference.by_weight(features, *reference.counts(tags)) for _, tags in labelings]
        expected.append(max(np.linalg.norm(x - y) for x in counts for y in counts))
    np.testing.assert_allclose(feature_diameters(data.rows, data.lengths), expected)


def test_constants_bound_the_objective_and_its_updates(problem):
    rng = np.random.default_rng(0)
    learner = problem.make_learner(CRF)
    size = (learner.n_features + 6, 3)

    def gradient(weights):
        return (problem.update(weights, CRF) + problem.l2 * weights) / problem.n

    for scale in (0.1, 1, 10):
        w, v = np.zeros((2, size[0], learner.stride))
        w[:, :3], v[:, :3] = rng.normal(0, scale, (2, *size))
        theorem = problem.theorem(np.linalg.norm(w))
        change, by = np.linalg.norm(gradient(v) - gradient(w)), np.linalg.norm(v - w)
        assert theorem.c * by <= change <= theorem.q * by
        curvature = ((gradient(v) - gradient(w)) * (v - w)).sum()
        assert curvature >= theorem.c * by**2
        update = problem.update(w, SAPO) / problem.n + theorem.c * w
        assert np.linalg.norm(update) <= theorem.kappa


def test_bounds():
    theorem = Theorem(c=0.5, q=2, kappa=3)
    assert theorem.least_eps(tau=0.25) == 2
    assert math.isnan(theorem.steps(tau=0.25, eps=2, start=10))
    rate = theorem.rate(tau=0.25, eps=4)
    assert rate == pytest.approx((0.5 * 4 - 2 * 0.25 * 2) / (2 * 9))
    # The recursion of the squared distance, |w - w*|^2, ends within eps.
    steps = theorem.steps(tau=0.25, eps=4, start=1000)
    distance = 1000.0
    for _ in range(math.ceil(steps)):
        distance = (1 - theorem.c * rate) * distance + 2 * rate * 0.25 + (rate * theorem.kappa) ** 2
    assert theorem.q / 2 * distance <= 4
    assert theorem.steps(tau=0.25, eps=4, start=1.9) == 0
    assert theorem.distance(eps=4) == 4
