"""Bootstrap intervals and the randomization test."""

from itertools import product

import numpy as np
import pytest

from spacy_bcrf.judging import report_values, resampling
from spacy_bcrf.judging.evaluation import score
from spacy_bcrf.judging.report_values import list_scores
from spacy_bcrf.judging.resampling import bootstrap_scores, percentile_interval, randomization_test
from spacy_bcrf.result import as_json


def random_counts(rng, n_docs, n_labels, gold=None):
    """Make counts of exact matches (D, L, 4)."""
    gold = rng.integers(0, 4, (n_docs, n_labels)) if gold is None else gold
    correct = rng.integers(0, gold + 1)
    predicted = correct + rng.integers(0, 3, gold.shape)
    return np.stack([gold, predicted, correct, correct], axis=-1).astype("float64")


def exact_p_values(one, other):
    """Enumerate all swaps of documents. The oracle of `randomization_test`."""
    total = np.abs(score(one.sum(0)) - score(other.sum(0)))
    n_extreme = np.zeros(total.shape)
    for swaps in product((False, True), repeat=len(one)):
        is_swapped = np.array(swaps)[:, None, None]
        first, second = np.where(is_swapped, other, one), np.where(is_swapped, one, other)
        difference = np.abs(score(first.sum(0)) - score(second.sum(0)))
        n_extreme += difference >= total - 1e-9
    return n_extreme / 2 ** len(one)


def test_spans_of_one_document_have_no_interval():
    """Once, they had one without width."""
    counts = np.zeros((9, 2, 4))
    counts[:, 0] = 2, 2, 1, 1
    counts[3, 1] = 2, 2, 1, 1
    rows = as_json(report_values._score_rows([None, "ID"], counts, 100, 0))
    assert list_scores(rows)[2] == ("ID", "2", "50.0", "50.0", "50.0")
    assert " to " in list_scores(rows)[1][2]
    counts[5, 1, 1] = 1  # a wrong prediction in another document
    row = list_scores(as_json(report_values._score_rows([None, "ID"], counts, 100, 0)))[2]
    assert " to " in row[2] and row[3] == "50.0" and " to " in row[4]


@pytest.mark.parametrize("seed", range(3))
def test_p_values_converge_to_all_swaps(seed):
    rng = np.random.default_rng(seed)
    one = random_counts(rng, 9, 3)
    other = random_counts(rng, 9, 3, gold=one[..., 0].astype(int))
    other[4] = one[4]  # an equal document
    expected = exact_p_values(one, other)
    found = randomization_test(one, other, 20000, seed)
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / 20000)
    assert (
        randomization_test(one, other, 500, seed) == randomization_test(one, other, 500, seed)
    ).all()


def test_p_values_of_equal_and_of_different_pipelines():
    rng = np.random.default_rng(0)
    gold = rng.integers(1, 4, (60, 2))
    perfect = np.repeat(gold[..., None], 4, axis=-1).astype("float64")
    poor = perfect * [1, 1, 0, 0]
    assert (randomization_test(perfect, perfect, 200) == 1).all()
    # No random swap is as extreme: r = 0.
    assert randomization_test(perfect, poor, 200) == pytest.approx(np.full((2, 3), 1 / 201))
    absent = np.zeros_like(perfect)
    assert np.isnan(randomization_test(absent, absent, 200)).all()


def test_the_interval_of_a_share_is_that_of_a_binomial():
    rng = np.random.default_rng(0)
    correct = (rng.random((400, 1)) < 0.7).astype("float64")
    counts = np.stack([np.ones_like(correct)] * 2 + [correct] * 2, axis=-1)
    low, high = percentile_interval(bootstrap_scores(counts, 4000, 1))
    p = correct.mean()
    deviation = 1.96 * np.sqrt(p * (1 - p) / 400)
    assert low == pytest.approx(np.full((1, 3), p - deviation), abs=0.006)
    assert high == pytest.approx(np.full((1, 3), p + deviation), abs=0.006)


def test_documents_are_drawn_as_a_whole():
    # All spans of a document are right or wrong: 50 documents, not 50,000 spans.
    correct = np.repeat([0.0, 1000.0], 25)[:, None]
    gold = np.full_like(correct, 1000)
    counts = np.stack([gold, gold, correct, correct], axis=-1)
    low, high = percentile_interval(bootstrap_scores(counts, 2000))[:, 0, 2]
    assert low < 0.4 < 0.6 < high


def test_samples_in_chunks_and_undefined_scores(monkeypatch):
    rng = np.random.default_rng(0)
    counts = random_counts(rng, 7, 2)
    counts[1:, 1] = 0
    counts[0, 1] = 1  # some samples lack this document
    whole = bootstrap_scores(counts, 300, 3)
    monkeypatch.setattr(resampling, "CHUNK", 70)
    samples = bootstrap_scores(counts, 300, 3)
    assert samples.shape == (300, 2, 3)
    assert not np.array_equal(samples, bootstrap_scores(counts, 300, 4), equal_nan=True)
    assert np.array_equal(samples, whole, equal_nan=True)
    assert np.isnan(samples[:, 1]).any()
    bounds = percentile_interval(samples)
    assert bounds[:, 1] == pytest.approx(np.ones((2, 3)))
    assert np.isnan(percentile_interval(np.full((5, 2), np.nan))).all()
