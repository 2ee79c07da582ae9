"""Tests of the explanation of a sparse chain."""

import numpy as np
import pytest
from spacy.lang.en import English
from spacy.tokens import Doc, Token

from bcrf import kernels
from bcrf.chain import CRF, viterbi
from bcrf.linear.learner import OnlineSettings
from spacy_bcrf.sparse.model import SparseChain
from spacy_bcrf.sparse.named_weights import (
    Weight,
    explain_choice,
    feature_weights,
    general_weights,
    name_features,
    name_known,
    strongest,
)

NLP = English()
TAGS = ["A", "B", "C"]
TEMPLATES = ["w[-1..1]", "suffix(1..2)[0]|w[1]", "prefix(1)[0]"]
WORDS = [["ab", "b", "cab"], ["b"], ["cab", "ab", "ab", "b"]]
GOLD = [[0, 1, 2], [1], [2, 0, 2, 1]]


@pytest.fixture
def docs():
    return [Doc(NLP.vocab, words=words) for words in WORDS]


@pytest.fixture
def chain(docs):
    chain = SparseChain(TEMPLATES, OnlineSettings("crf", averaged=False, rate=0.3))
    chain.initialize(docs, len(TAGS))
    gold = np.concatenate([np.array(tags, dtype="int32") for tags in GOLD])
    for _ in range(20):
        chain.step(docs, gold)
    return chain


def test_each_feature_has_the_name_under_which_it_was_learned(chain, docs):
    n = chain.learner.n_features
    names = name_features(chain, docs, np.arange(n))
    assert len(set(names.values())) == len(names) == n
    for doc in docs:
        keys, starts = chain.features.keys([doc])
        rows = chain.dictionary.find(keys).tolist()
        for i in range(len(doc)):
            described = chain.features.describe(doc)[i]
            assert [names[row] for row in rows[starts[i] : starts[i + 1]]] == described
    assert set(name_features(chain, docs, np.array([3]))) == {3}


def test_the_strongest_by_absolute_weight(chain, docs):
    rows = strongest(chain, 4)
    names = name_features(chain, docs, rows.ravel())
    everything = feature_weights(chain, TAGS, name_features(chain, docs, np.arange(1000) % 5))
    assert len(everything) > 3 * 4
    shown = feature_weights(chain, TAGS, names, rows)
    for tag in TAGS:
        top = [weight.weight for weight in shown if weight.tag == tag]
        column = chain.learner.weights[len(TAGS) + 3 :, TAGS.index(tag)]
        expected = sorted(np.abs(column), reverse=True)[:4]
        np.testing.assert_allclose(np.abs(top), expected)
    assert strongest(chain, 10_000).shape == (3, chain.learner.n_features)


def test_transitions_are_named_from_and_to(chain):
    found = {(w.feature, w.tag): w.weight for w in general_weights(chain, TAGS)}
    weights = chain.learner.weights
    assert found["A ->", "B"] == pytest.approx(weights[0, 1])
    assert found["end", "C"] == pytest.approx(weights[5, 2])


def test_a_feature_without_a_name_is_shown_by_its_key(chain):
    (first, *_) = feature_weights(chain, TAGS, {})
    assert first.feature.startswith("key ")


def test_a_chain_without_features(docs):
    chain = SparseChain(TEMPLATES, OnlineSettings(), min_freq=1000)
    chain.initialize(docs, len(TAGS))
    rows = strongest(chain, 4)
    assert rows.shape == (len(TAGS), 0)
    assert name_features(chain, docs, rows.ravel()) == {}
    assert feature_weights(chain, TAGS, {}, rows) == []


def test_reasons_add_up_to_the_difference_of_scores(chain, docs):
    for doc in docs:
        potentials = chain.potentials([doc])
        best = viterbi(potentials)[0]
        marginals = CRF().marginals(potentials).unary
        for i in range(len(doc)):
            choice = explain_choice(chain, doc, potentials, TAGS, best, marginals, i)
            assert choice.tag == best[i] != choice.rival
            other = best.copy()
            other[i] = choice.rival
            scores = [kernels.path_scores(*potentials.arrays, tags) for tags in (best, other)]
            difference = scores[0] - scores[1]
            total = sum(value for _, value in choice.reasons)
            assert total == pytest.approx(float(difference[0]), abs=1e-4)
            sizes = [abs(value) for _, value in choice.reasons]
            assert sizes == sorted(sizes, reverse=True)


def test_values_of_a_document_are_computed_once():
    calls = []
    Token.set_extension("counted", getter=lambda token: calls.append(token.i) or token.text)
    try:
        doc = Doc(NLP.vocab, words=list("abcdefgh"))
        chain = SparseChain(["_.counted[-1..1]", "w[0]"], OnlineSettings())
        chain.initialize([doc], 2)
        for function in (
            lambda: name_features(chain, [doc], np.arange(chain.learner.n_features)),
            lambda: name_known(chain, doc),
        ):
            calls.clear()
            names = function()
            assert len(names) >= len(doc)
            # Once for the keys, and once for the names.
            assert len(calls) == 2 * len(doc)
    finally:
        Token.remove_extension("counted")


def test_pairs_of_tags_of_a_second_order_chain_have_names(docs):
    chain = SparseChain(["w[0]"], OnlineSettings("crf", 2, averaged=False))
    chain.initialize(docs, len(TAGS))
    weights = chain.learner.weights.copy()
    pairs = chain.learner.pairs
    weights[len(TAGS) + 3 + pairs[0, 1], 2] = 1.5
    weights[len(TAGS) + 3 + pairs[3, 0], 1] = -1
    chain.learner.weights = weights
    names = name_features(chain, docs, pairs.ravel())
    assert names == {}
    found = feature_weights(chain, TAGS, names)
    assert found == [Weight("B", "start -> A ->", -1.0), Weight("C", "A -> B ->", 1.5)]
