"""Tests of word vectors as features."""

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.vectors import Vectors
from spacy.vocab import Vocab

from bcrf.linear.learner import OnlineSettings
from bcrf.linear.templates import TemplateError
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.model import SparseChain


def make_vocab(rows):
    vocab = Vocab()
    for word, vector in rows.items():
        vocab.set_vector(word, np.array(vector, dtype="float32"))
    return vocab


ROWS = {"a": [-3, 1], "b": [-2, 2], "c": [-1, 3], "d": [1, -3], "e": [2, -2], "f": [3, -1]}


def values(features, doc):
    return [[name.partition("=")[2] for name in names] for names in features.describe(doc)]


def load(templates, doc):
    features = Features(templates)
    features.load()
    features.measure(doc.vocab)
    return features


def test_dimensions_beyond_the_terciles_are_features():
    doc = Doc(make_vocab(ROWS), words=["a", "c", "f", "unknown"])
    features = load(["vector[0]"], doc)
    assert values(features, doc) == [["1-"], ["2+"], ["1+"], []]
    assert values(load(["vector(2)[0]"], doc), doc) == [[], ["2+"], [], []]
    assert len(features.keys([doc])[0]) == 3


def test_other_vectors_change_only_their_own_words():
    vocab = make_vocab(ROWS)
    doc = Doc(vocab, words=["a", "b", "c", "new"])
    features = load(["vector[0]"], doc)
    assert values(features, doc) == [["1-"], ["1-", "2+"], ["2+"], []]
    vocab.set_vector("a", np.array([3, 1], "float32"))
    for word in ("new", "newer", "newest"):
        vocab.set_vector(word, np.array([-9, 1], "float32"))
    assert values(features, doc) == [["1+"], ["1-", "2+"], ["2+"], ["1-"]]


def test_a_chain_stores_the_terciles():
    doc = Doc(make_vocab(ROWS), words=["a", "c", "f"])
    chain = SparseChain(["vector[0]"], OnlineSettings())
    chain.initialize([doc], 2)
    again = SparseChain(["vector[0]"], OnlineSettings()).from_bytes(chain.to_bytes())
    other = Doc(make_vocab(ROWS | {"x": [9, 9], "y": [9, 9], "z": [9, 9]}), words=["a", "c", "f"])
    assert values(again.features, other) == [["1-"], ["2+"], ["1+"]]


def test_unusable_vectors_are_named():
    without = Doc(Vocab(), words=["a"])
    features = Features(["vector[-1]"])
    with pytest.raises(TemplateError, match=r"'vector\[-1\]', position 1: the vocabulary has no"):
        features.measure(without.vocab)
    with pytest.raises(TemplateError, match="no terciles of the vectors; initialize"):
        features.keys([without])
    doc = Doc(make_vocab(ROWS), words=["a"])
    for last in (3, 1_000_000_000):
        with pytest.raises(TemplateError, match=f"the vectors have 2 dimensions, but not {last}"):
            load([f"vector(1..{last})[0]"], doc)
    loaded = load(["vector[0]"], doc)
    with pytest.raises(TemplateError, match="3 dimensions, but 2 when the model was init"):
        loaded.keys([Doc(make_vocab({"a": [1, 2, 3]}), words=["a"])])
    with pytest.raises(TemplateError, match="the vocabulary has no vectors"):
        loaded.keys([without])
    floret = Vocab()
    floret.vectors = Vectors(
        data=np.ones((4, 2), "float32"), mode="floret", hash_count=1, minn=1, maxn=2
    )
    with pytest.raises(TemplateError, match="floret vectors; expected one vector a word"):
        load(["vector[0]"], Doc(floret, words=["a"]))
