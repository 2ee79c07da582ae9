"""Tests of word vectors as features."""

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.templates import TemplateError


def make_vocab(rows):
    vocab = Vocab()
    for word, vector in rows.items():
        vocab.set_vector(word, np.array(vector, dtype="float32"))
    return vocab


ROWS = {"a": [-3, 1], "b": [-2, 2], "c": [-1, 3], "d": [1, -3], "e": [2, -2], "f": [3, -1]}


def values(features, doc):
    return [
        [name.partition("=")[2] for _, name in features.describe(doc, i)] for i in range(len(doc))
    ]


def test_dimensions_beyond_the_terciles_are_features():
    doc = Doc(make_vocab(ROWS), words=["a", "c", "f", "unknown"])
    features = Features(["vector[0]"])
    assert values(features, doc) == [["1-"], ["2+"], ["1+"], []]
    assert values(Features(["vector(2)[0]"]), doc) == [[], ["2+"], [], []]
    assert len(features.keys([doc])[0]) == 3
    # Another vocabulary has other terciles.
    other = Doc(make_vocab({word: [-x, -y] for word, (x, y) in ROWS.items()}), words=["a"])
    assert values(features, other) == [["1+"]]
    assert values(features, doc)[0] == ["1-"]


def test_missing_vectors_are_named():
    without = Doc(Vocab(), words=["a"])
    with pytest.raises(TemplateError, match=r"'vector\[-1\]', position 1: the vocabulary has no"):
        Features(["vector[-1]"]).keys([without])
    two = Doc(make_vocab(ROWS), words=["a"])
    with pytest.raises(TemplateError, match="the vectors have 2 dimensions, but not 3"):
        Features(["vector(1..3)[0]"]).keys([two])
