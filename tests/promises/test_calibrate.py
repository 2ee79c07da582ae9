"""Reliability, and the temperature that calibrates confidences."""

import math

import numpy as np
import pytest
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import network, train

from spacy_bcrf.pipeline.calibration import (
    Calibration,
    expected_error,
    golden_section,
    measure_reliability,
)


def test_reliability_equals_hand_computed_bins():
    confidence = np.array([0.05, 0.62, 0.68, 0.7, 1.0])
    correct = np.array([False, True, False, True, True])
    table = measure_reliability(confidence, correct, n_bins=10)
    assert table.counts.tolist() == [1, 0, 0, 0, 0, 0, 2, 1, 0, 1]
    assert table.confidence[6] == pytest.approx(0.65)
    assert table.accuracy[6] == pytest.approx(0.5)
    assert table.error == pytest.approx((0.05 + 2 * 0.15 + 0.3 + 0.0) / 5)


def test_calibrated_predictions_have_no_calibration_error():
    rng = np.random.default_rng(0)
    confidence, uniform = rng.random((2, 200_000))
    assert measure_reliability(confidence, uniform < confidence).error < 0.005
    assert measure_reliability(confidence, uniform < confidence**3).error > 0.1


def test_reliability_without_predictions():
    assert measure_reliability(np.zeros(0), np.zeros(0, dtype=bool)).error == 0


@pytest.mark.parametrize("best", [-2.0, 0.3, 1.7])
def test_golden_section_finds_the_minimum(best):
    found = golden_section(lambda x: math.cosh(x - best), -3, 3)
    assert found == pytest.approx(best, abs=0.01)


def test_predictions_on_unknown_gold_labels_are_wrong():
    nlp = MultiLanguage()
    words = ["Ann", "saw", "Rome"]
    nlp.add_pipe("bcrf_ner", config={"model": network()})
    nlp.add_pipe("bcrf_tagger", config={"model": network()})
    gold = Doc(nlp.vocab, words=words, tags=["N", "V", "N"], ents=["B-PER", "O", "B-LOC"])
    train(nlp, [Example(Doc(nlp.vocab, words=words), gold)])
    dev = Doc(nlp.vocab, words=words, tags=["N", "", "X"], ents=["B-PER", "O", "B-CITY"])
    dev_examples = [Example(Doc(nlp.vocab, words=words), dev)]
    _, (starts, _, _), correct, _ = nlp.get_pipe("bcrf_ner").compare_with_gold(dev_examples)
    assert (starts.tolist(), correct.tolist()) == ([0, 2], [True, False])
    _, (tokens, _, _), correct, n = nlp.get_pipe("bcrf_tagger").compare_with_gold(dev_examples)
    assert (tokens.tolist(), correct.tolist(), n) == ([0, 2], [True, False], 1)


def test_fit_without_predictions_is_an_error():
    pipe = MultiLanguage().add_pipe("bcrf_ner", name="ner")
    with pytest.raises(
        ValueError, match=r"\[ner\] no prediction has gold annotation to compare with"
    ):
        Calibration(pipe, []).fit()


def test_the_error_of_perfectly_calibrated_predictions():
    """It falls with their number, and is what such predictions have."""
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    small, large = expected_error(p[:50]), expected_error(p)
    assert large < 0.05 < small
    errors = [measure_reliability(p, rng.random(1000) < p).error for _ in range(100)]
    assert large == pytest.approx(np.mean(errors), rel=0.1)
    assert expected_error(np.ones(5)) == 0
