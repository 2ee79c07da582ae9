"""Reliability tables, and the search for the temperature."""

import math

import numpy as np
import pytest

from spacy_bcrf.pipeline.calibration import _minimize, measure_reliability


def test_reliability_by_hand():
    confidence = np.array([0.05, 0.62, 0.68, 0.7, 1.0])
    correct = np.array([False, True, False, True, True])
    table = measure_reliability(confidence, correct, n_bins=10)
    assert table.counts.tolist() == [1, 0, 0, 0, 0, 0, 2, 1, 0, 1]
    assert table.confidence[6] == pytest.approx(0.65)
    assert table.accuracy[6] == pytest.approx(0.5)
    assert table.error == pytest.approx((0.05 + 2 * 0.15 + 0.3 + 0.0) / 5)


def test_perfectly_reliable_predictions_have_no_error():
    rng = np.random.default_rng(0)
    confidence = rng.random(200_000)
    table = measure_reliability(confidence, rng.random(200_000) < confidence)
    assert table.error < 0.005
    assert measure_reliability(confidence, rng.random(200_000) < confidence**3).error > 0.1


def test_no_predictions_have_no_error():
    assert measure_reliability(np.zeros(0), np.zeros(0, dtype=bool)).error == 0


@pytest.mark.parametrize("best", [-2.0, 0.3, 1.7])
def test_minimum_is_found(best):
    found = _minimize(lambda x: math.cosh(x - best), -3, 3)
    assert found == pytest.approx(best, abs=0.01)
