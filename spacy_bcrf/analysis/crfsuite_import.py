"""Import of a trained CRFsuite model into a pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from bcrf.linear.crfsuite_model import read_crfsuite_model
from spacy_bcrf.corpora.formats.crfsuite import set_features
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.pipeline.tagger import Tagger

TEMPLATE = "_.crfsuite[0]"


def import_crfsuite(path: Path, lang: str = "en") -> Language:
    """Make a pipeline with a `bcrf_tagger` that has the labels and the weights of a model file.

    It reads the names of features from `token._.crfsuite`, see `corpora.formats.set_features`.
    Features with values other than 1 have no counterpart. The pipeline has and saves weights of
    float32; `sklearn.CRF(model_filename=path)` keeps float64.

    Raises ValueError naming the file if it is no CRFsuite model, or has no label.
    """
    model = read_crfsuite_model(path)
    labels, attributes = model.labels, model.attributes
    if not labels or "" in labels or "" in attributes:
        raise ValueError(f"{path}: the model has no label, or an empty label or attribute")
    nlp = spacy.blank(lang)
    chain_config = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": [TEMPLATE]}
    tagger = nlp.add_pipe("bcrf_tagger", config={"model": {**chain_config, "objective": "crf"}})
    assert isinstance(tagger, Tagger)
    # The first token has all features.
    doc = Doc(nlp.vocab, words=["_"] * len(labels))
    set_features(doc, [attributes, *[[]] * (len(labels) - 1)])
    reference = Doc(nlp.vocab, words=["_"] * len(labels), tags=labels)
    tagger.initialize(lambda: [Example(doc, reference)], nlp=nlp, labels=labels)
    chain = sparse_chain(tagger.model)
    assert chain is not None
    keys, _ = chain.features.keys([doc])
    rows = chain.dictionary.find(keys[: len(attributes)])
    order = [labels.index(label) for label in tagger.labels]
    n_tags, weights = len(labels), np.zeros_like(chain.learner.weights)
    weights[:n_tags, :n_tags] = model.transitions[np.ix_(order, order)]
    weights[n_tags + 3 + rows, :n_tags] = model.weights[:, order]
    chain.learner.weights = weights
    chain.full = True
    return nlp
