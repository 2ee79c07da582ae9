"""Commands in this process, and a trained pipeline for them."""

import pytest
import spacy
from sentences import make_docs
from spacy.tokens import DocBin
from spacy.training import Example
from tiny_training import network, train


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A temporary folder, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory):
    """A folder with `model`, a pipeline of tagger and entity recognizer, and `dev.spacy`.

    A third of the labels in `dev.spacy` differ from the training data.
    """
    folder = tmp_path_factory.mktemp("pipeline")
    nlp = spacy.blank("xx")
    for factory, name in (("bcrf_tagger", "tagger"), ("bcrf_ner", "ner")):
        nlp.add_pipe(factory, name, config={"model": network()})
    docs = make_docs(nlp.vocab, tags="NVNP")
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs])
    nlp.to_disk(folder / "model")
    dev = make_docs(nlp.vocab, wrong=3)
    DocBin(docs=dev).to_disk(folder / "dev.spacy")
    return folder
