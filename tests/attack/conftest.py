"""A trained pipeline for attacks."""

import pytest
import spacy
from spacy.training import Example
from tiny_training import network, train


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a pipeline of tagger and entity recognizer for English."""
    nlp = spacy.blank("en")
    for factory, name in (("bcrf_tagger", "tagger"), ("bcrf_ner", "ner")):
        nlp.add_pipe(factory, name, config={"model": network()})
    gold = {"entities": [(0, 3, "PERSON"), (8, 12, "LOC")], "tags": ["N", "V", "N", "P"]}
    train(nlp, [Example.from_dict(nlp.make_doc("Ann saw Rome ."), gold)])
    folder = tmp_path_factory.mktemp("trained") / "model"
    nlp.to_disk(folder)
    return folder
