"""Uncertainty measures against enumeration of all labelings."""

import numpy as np
import pytest
from oracles import enumeration
from scipy.special import rel_entr

from bcrf.chain import Potentials
from spacy_bcrf.pipeline.uncertainty import MEASURES, measure_entities, measure_labelings

LENGTHS = (4, 0, 1, 6)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    n = sum(LENGTHS)
    scores = rng.normal(size=(n, 3)), rng.normal(size=(3, 3))
    return Potentials(*scores, np.array(LENGTHS, dtype="int32"))


def distributions(batch):
    """Return the labelings of each sequence and their probabilities."""
    for _, u, w in enumeration.sequences(batch):
        yield enumeration.labelings(u, w)[0], enumeration.probabilities(u, w)


@pytest.mark.parametrize("by", MEASURES)
def test_measures_of_documents_and_tokens(batch, by):
    documents, tokens = (measure_labelings(batch, by, per) for per in ("document", "token"))
    for i, (paths, p) in enumerate(distributions(batch)):
        n, best = LENGTHS[i], [*np.sort(p)[::-1], 0.0]
        entropy = -rel_entr(p, 1).sum()
        expected = {"entropy": entropy, "confidence": 1 - best[0], "margin": 1 - best[0] + best[1]}
        assert documents[i] == pytest.approx(expected[by], abs=1e-9)
        marginals = np.array([[p[paths[:, t] == k].sum() for k in range(3)] for t in range(n)])
        first, second = np.sort(marginals.reshape(n, 3), axis=1)[:, :0:-1].T
        expected = {
            "entropy": entropy / max(1, n),
            "confidence": 1 - best[0] ** (1 / max(1, n)),
            "margin": (1 - first + second).mean() if n else 0,
        }
        assert tokens[i] == pytest.approx(expected[by], abs=1e-9)


@pytest.mark.parametrize("by", MEASURES)
def test_only_measures_of_documents_grow_with_the_length(by):
    """Copies of one sequence, with no dependence between them."""
    unary = np.random.default_rng(1).normal(size=(3, 3))
    lengths = np.array([3, 30], dtype="int32")
    potentials = Potentials(np.tile(unary, (11, 1)), np.zeros((3, 3)), lengths)
    short, long = measure_labelings(potentials, by, "token")
    assert long == pytest.approx(short, abs=1e-9)
    short, long = measure_labelings(potentials, by, "document")
    assert long > short + 0.02


def test_measures_of_entities():
    docs = [
        # Two possible entities: 0:2 against 1:3 and 0:1, and 5:6 alone.
        [(0, 1, 1, 0.1), (0, 2, 0, 0.5), (1, 3, 0, 0.3), (5, 6, 1, 0.8)],
        [],
        [(0, 1, 0, 1.0)],
        # Labels of the same span exclude each other.
        [(0, 1, 0, 0.5), (0, 1, 1, 0.5)],
    ]
    confidence = measure_entities(docs, "confidence")
    assert confidence == pytest.approx([(0.5 + 0.2) / 2, 0, 0, 0.5])
    margin = measure_entities(docs, "margin")
    assert margin == pytest.approx([(1 - 0.2 + 1 - 0.6) / 2, 0, 0, 1])
    entropies = [-rel_entr([0.5, 0.3, 0.1, 0.1], 1).sum(), -rel_entr([0.8, 0.2], 1).sum()]
    entropy = measure_entities(docs, "entropy")
    assert entropy == pytest.approx([np.mean(entropies), 0, 0, np.log(2)])


def test_spans_that_do_not_exclude_each_other_are_normalized():
    docs = [[(0, 2, 0, 0.6), (0, 1, 0, 0.4), (1, 2, 0, 0.4)]]
    assert measure_entities(docs, "confidence") == pytest.approx([1 - 0.6 / 1.4])
