"""Training of the chains that cross-fitting, `tune` and `curve` compare."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_bcrf.corpora.inspection import Inspection
from spacy_bcrf.judging import folds
from spacy_bcrf.judging.folds import fit_sparse_chain, train_config
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.training.first_config import make_first_config


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


@pytest.mark.parametrize(
    ("encoder", "patience", "folder", "n_train"),
    [
        ("sparse", 0, "model-last", 20),
        ("sparse", 5, "model-best", 18),
        ("cnn", 0, "model-best", 18),
    ],
)
def test_the_last_step_of_a_chain_is_taken_and_the_best_of_a_network(
    tmp_path, monkeypatch, encoder, patience, folder, n_train
):
    """On the few documents that choose the best step, an early one of a chain can win by chance."""
    docs = [Doc(spacy.blank("en").vocab, words=["Ann"], ents=["B-PER"])] * 20
    corpus = Inspection()
    for doc in docs:
        corpus.add(doc)
    paths = {"train": "train.spacy", "dev": "dev.spacy"}
    config = make_first_config(corpus, "en", encoder=encoder, paths=paths)[0]
    config["training"]["patience"] = patience
    config.to_disk(tmp_path / "c.cfg")
    learned = []

    def train(nlp, *args, **settings):
        path = nlp.config["paths"]["train"]
        learned.extend(DocBin().from_disk(path).get_docs(nlp.vocab))

    monkeypatch.setattr(folds, "train", train)
    monkeypatch.setattr(folds.spacy, "load", lambda path: path.name)
    assert train_config(tmp_path / "c.cfg", docs, ["PER"], "ner") == folder
    assert len(learned) == n_train
