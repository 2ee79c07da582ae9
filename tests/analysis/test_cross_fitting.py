"""Training of the chains that cross-fitting, `tune` and `curve` compare."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.analysis.cross_fitting import fit_sparse_chain
from spacy_bcrf.layers.linear_chain import sparse_chain


def weights(dropout, passes=3):
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[-1..1]"]}
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": {**model, "feature_dropout": dropout}})
    words = [["the", "dog", "runs"], ["a", "cat", "sees", "the", "dog"]] * 5
    tags = [["D", "N", "V"], ["D", "N", "V", "D", "N"]] * 5
    docs = [Doc(nlp.vocab, words=w, tags=t) for w, t in zip(words, tags, strict=True)]
    examples = [Example(Doc(nlp.vocab, words=[t.text for t in d]), d) for d in docs]
    fit_sparse_chain(nlp, examples, passes)
    return sparse_chain(pipe.model).learner.weights


def test_a_chain_drops_features_as_its_config_says():
    without, dropped = weights(0.0), weights(0.5)
    assert without.shape == dropped.shape and not np.array_equal(without, dropped)
    # Almost no feature is left, so that almost none has a weight.
    n_kept = np.count_nonzero(np.abs(weights(0.99, 1)).sum(axis=1))
    assert n_kept < np.count_nonzero(np.abs(without).sum(axis=1)) / 2


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_training_depends_on_the_seed_of_the_chain_alone(dropout):
    assert np.array_equal(weights(dropout), weights(dropout))
