"""A trained pipeline for the commands."""

import pytest
from spacy.lang.en import English
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import fix_random_seed

WORDS = {"PERSON": ("Ann", "Bob", "Eve"), "LOC": ("Rome", "Oslo", "Kiel")}


def make_docs(vocab, wrong=0):
    """Make sentences of two entities. wrong: number of sentences with swapped labels."""
    docs = []
    for person in WORDS["PERSON"]:
        for place in WORDS["LOC"]:
            ents = ["B-PERSON", "O", "B-LOC", "O"]
            if len(docs) < wrong:
                ents[0], ents[2] = ents[2], ents[0]
            docs.append(Doc(vocab, words=[person, "saw", place, "."], ents=ents))
    return docs


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory):
    """A folder with `model`, a pipeline of tagger and entity recognizer, and `dev.spacy`.

    A third of the labels in `dev.spacy` differ from the training data.
    """
    folder = tmp_path_factory.mktemp("pipeline")
    fix_random_seed(0)
    nlp = English()
    nlp.add_pipe("bcrf_tagger", name="tagger")
    nlp.add_pipe("bcrf_ner", name="ner")
    docs = make_docs(nlp.vocab)
    for doc in docs:
        for token, tag in zip(doc, ("N", "V", "N", "P"), strict=True):
            token.tag_ = tag
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(30):
        nlp.update(examples, sgd=optimizer)
    nlp.to_disk(folder / "model")
    dev = make_docs(nlp.vocab, wrong=3)
    DocBin(docs=dev).to_disk(folder / "dev.spacy")
    return folder
