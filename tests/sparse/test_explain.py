import numpy as np
import pytest
from spacy.lang.en import English
from spacy.tokens import Doc

from spacy_bcrf.chain import CRF, viterbi
from spacy_bcrf.chain.gold import path_scores
from spacy_bcrf.sparse.explain import (
    explain_choice,
    feature_weights,
    general_weights,
    name_features,
    strongest,
)
from spacy_bcrf.sparse.learner import OnlineSettings
from spacy_bcrf.sparse.model import SparseChain

NLP = English()
TAGS = ["A", "B", "C"]
TEMPLATES = ["w[-1..1]", "suffix(1..2)[0]|w[1]", "prefix(1)[0]"]
WORDS = [["ab", "b", "cab"], ["b"], ["cab", "ab", "ab", "b"]]
GOLD = [[0, 1, 2], [1], [2, 0, 2, 1]]


@pytest.fixture
def docs():
    return [Doc(NLP.vocab, words=words) for words in WORDS]


@pytest.fixture
def store(docs):
    store = SparseChain(TEMPLATES, OnlineSettings("crf", averaged=False, rate=0.3))
    store.initialize(docs, len(TAGS))
    gold = np.concatenate([np.array(tags, dtype="int32") for tags in GOLD])
    for _ in range(20):
        store.step(docs, gold)
    return store


def test_each_feature_has_the_name_under_which_it_was_learned(store, docs):
    n = store.learner.n_features
    names = name_features(store, docs, np.arange(n))
    assert len(set(names.values())) == len(names) == n
    for doc in docs:
        keys, starts, _ = store.features.keys([doc])
        rows = store.dictionary.find(keys).tolist()
        for i in range(len(doc)):
            described = [name for _, name in store.features.describe(doc, i)]
            assert [names[row] for row in rows[starts[i] : starts[i + 1]]] == described
    assert set(name_features(store, docs, np.array([3]))) == {3}


def test_the_strongest_by_absolute_weight(store, docs):
    rows = strongest(store, 4)
    names = name_features(store, docs, rows.ravel())
    everything = feature_weights(store, TAGS, name_features(store, docs, np.arange(1000) % 5))
    assert len(everything) > 3 * 4
    shown = feature_weights(store, TAGS, names, rows)
    for tag in TAGS:
        top = [weight.weight for weight in shown if weight.tag == tag]
        column = store.learner.weights[len(TAGS) + 3 :, TAGS.index(tag)]
        expected = sorted(np.abs(column), reverse=True)[:4]
        np.testing.assert_allclose(np.abs(top), expected)
    assert strongest(store, 10_000).shape == (3, store.learner.n_features)


def test_transitions_are_named_from_and_to(store):
    found = {(w.feature, w.tag): w.weight for w in general_weights(store, TAGS)}
    weights = store.learner.weights
    assert found["A ->", "B"] == pytest.approx(weights[0, 1])
    assert found["end", "C"] == pytest.approx(weights[5, 2])


def test_a_feature_without_a_document_is_shown_by_its_key(store):
    (first, *_) = feature_weights(store, TAGS, {})
    assert first.feature.startswith("key ")


def test_a_store_without_features(docs):
    store = SparseChain(TEMPLATES, OnlineSettings(), min_freq=1000)
    store.initialize(docs, len(TAGS))
    rows = strongest(store, 4)
    assert rows.shape == (len(TAGS), 0)
    assert name_features(store, docs, rows.ravel()) == {}
    assert feature_weights(store, TAGS, {}, rows) == []


def test_reasons_add_up_to_the_difference_of_scores(store, docs):
    for doc in docs:
        potentials = store.potentials([doc])
        best = viterbi(potentials)[0]
        marginals = CRF().marginals(potentials).unary
        for i in range(len(doc)):
            choice = explain_choice(store, doc, potentials, TAGS, best, marginals, i)
            assert choice.tag == best[i] != choice.rival
            other = best.copy()
            other[i] = choice.rival
            difference = path_scores(potentials, best) - path_scores(potentials, other)
            total = sum(value for _, value in choice.reasons)
            assert total == pytest.approx(float(difference[0]), abs=1e-4)
            sizes = [abs(value) for _, value in choice.reasons]
            assert sizes == sorted(sizes, reverse=True)
