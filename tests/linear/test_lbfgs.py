"""L-BFGS and OWL-QN on functions whose minima are known."""

from typing import Any

import numpy as np
import pytest

from bcrf.linear import DivergedError
from bcrf.linear.lbfgs import LBFGSSettings, minimize


def quadratic(center, curvature):
    def evaluate(w):
        return float((curvature * (w - center) ** 2).sum() / 2), curvature * (w - center)

    return evaluate


def ignore(*_: Any) -> None:
    pass


@pytest.mark.parametrize("c1", [0, 0.5, 100])
@pytest.mark.parametrize("c2", [0, 0.5])
def test_the_minimum_of_a_quadratic(c1, c2):
    """It is the soft threshold of the center, with exact zeros."""
    random = np.random.default_rng(0)
    center, curvature = random.normal(size=(2, 50, 8)).astype("float32")
    curvature = np.exp(curvature / 2)
    start = random.normal(size=center.shape).astype("float32")
    settings = LBFGSSettings(c1, c2, epsilon=1e-6, delta=0)
    found = minimize(quadratic(center, curvature), start, settings, ignore)
    pull = curvature * center
    expected = np.sign(pull) * np.maximum(np.abs(pull) - c1, 0) / (curvature + 2 * c2)
    assert found == pytest.approx(expected, abs=1e-3)
    assert ((found == 0) == (expected == 0)).all()


def test_each_iteration_reports_a_smaller_objective():
    random = np.random.default_rng(0)
    center, curvature = random.normal(size=(2, 50, 8)).astype("float32")
    seen = []

    def report(n, value, weights):
        expected = quadratic(center, np.exp(curvature))(weights)[0] + 0.1 * np.abs(weights).sum()
        assert value == pytest.approx(expected, rel=1e-5)
        seen.append((n, value))

    settings = LBFGSSettings(c1=0.1, c2=0, max_iterations=7)
    minimize(quadratic(center, np.exp(curvature)), np.zeros_like(center), settings, report)
    assert [n for n, _ in seen] == list(range(1, 8))
    assert (np.diff([value for _, value in seen]) < 0).all()


def test_a_gradient_that_is_not_finite():
    start = np.ones((1, 8), "float32")
    with pytest.raises(DivergedError, match="scale the values of features"):
        minimize(lambda w: (0.0, w * np.float32("inf")), start, LBFGSSettings(), ignore)
