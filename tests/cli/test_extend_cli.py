"""The command `python -m spacy bcrf extend`."""

import shutil

import numpy as np
import pytest
import spacy
from commands import command
from sentences import make_docs
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from tiny_training import LISTENER, TOK2VEC, network, train

from spacy_bcrf.pipeline.settings import Control

run = command("extend")
SPARSE = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"], "objective": "crf"}
TEXT = "Ann saw Rome ."


def keep(docs, label):
    """Leave only the entities with a label."""
    for doc in docs:
        doc.ents = [ent for ent in doc.ents if ent.label_ == label]
    return docs


def make_pipeline(path, model, before=()):
    nlp = spacy.blank("xx")
    for name, config in before:
        nlp.add_pipe(name, config=config)
    nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    docs = keep(make_docs(nlp.vocab), "PERSON")
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], 10)
    nlp.to_disk(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Pipelines that know PERSON, a tagger, and corpora of LOC alone and of a tag alone."""
    folder = tmp_path_factory.mktemp("extend")
    make_pipeline(folder / "sparse", SPARSE)
    make_pipeline(folder / "neural", network("CRF"))
    make_pipeline(folder / "shared", network("CRF", LISTENER), [("tok2vec", {"model": TOK2VEC})])
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_tagger", "tagger", config={"model": SPARSE})
    docs = make_docs(nlp.vocab, tags="NVNP")
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], 10)
    nlp.to_disk(folder / "tagger")
    DocBin(docs=keep(make_docs(nlp.vocab), "LOC")).to_disk(folder / "new.spacy")
    tags = make_docs(nlp.vocab, tags=("", "", "PLACE", ""))
    DocBin(docs=tags).to_disk(folder / "tags.spacy")
    return folder


@pytest.fixture
def folder(trained, here):
    shutil.copytree(trained, here, dirs_exist_ok=True)
    return here


def entities(model, text=TEXT):
    return [(ent.text, ent.label_) for ent in spacy.load(model)(text).ents]


@pytest.mark.parametrize("model", ["sparse", "neural", "shared"])
def test_the_new_label_is_learned_and_the_old_one_kept(folder, model):
    assert entities(model) == [("Ann", "PERSON")]
    options = [] if model == "sparse" else ["--learn-rate", "0.02"]
    result = run(model, "new.spacy", "--labels", "LOC", "-o", "out", *options)
    assert result.stdout.splitlines()[0] == "ner: learned LOC from 9 documents"
    assert result.stdout.splitlines()[-1] == "stored in out"
    # The new corpus says nothing of PERSON.
    assert entities("out") == [("Ann", "PERSON"), ("Rome", "LOC")]
    assert entities(model) == [("Ann", "PERSON")]


def test_a_promise_is_said_to_be_removed(folder):
    gone = "the promise of `control` is removed: run `control` again"
    assert gone not in run("sparse", "new.spacy", "--labels", "LOC", "-o", "plain").stdout
    nlp = spacy.load("sparse")
    nlp.get_pipe("ner").control = Control("recall", ("PERSON",), (0.5,))
    nlp.to_disk("promised")
    assert gone in run("promised", "new.spacy", "--labels", "LOC", "-o", "out").stdout
    assert spacy.load("out").get_pipe("ner").control is None


def test_other_components_stay(folder):
    nlp = spacy.load("shared")
    nlp.add_pipe("tagger", source=spacy.load("tagger"))
    nlp.to_disk("both")
    run("both", "new.spacy", "--labels", "LOC", "-p", "ner", "-o", "out")
    before, after = ((folder / f / "tagger" / "model").read_bytes() for f in ("both", "out"))
    assert before == after


def test_a_tag_more(folder):
    run("tagger", "tags.spacy", "--labels", "PLACE", "-o", "out")
    tags = [token.tag_ for token in spacy.load("out")("Eve saw Kiel .")]
    assert tags == ["N", "V", "PLACE", "P"]


def test_old_labels_keep_their_probabilities(folder):
    """Old labels at words that the new corpus does not annotate: the teacher's marginals."""
    run("sparse", "new.spacy", "--labels", "LOC", "-o", "out", "--passes", 20)
    before, after = (
        pipe.get_pipe("ner").token_marginals([pipe.make_doc(TEXT)])[0]
        for pipe in map(spacy.load, ("sparse", "out"))
    )
    np.testing.assert_allclose(after[:2, : before.shape[1]], before[:2], atol=0.1)


def test_documents_without_annotation_of_the_label_are_counted(folder):
    nlp = spacy.blank("xx")
    docs = [
        *keep(make_docs(nlp.vocab), "LOC"),
        Doc(nlp.vocab, words=["Bob", "left"], spaces=[True, False]),
        Doc(nlp.vocab, words=["Ann-Rome"], spaces=[False], ents=["B-LOC"]),
    ]
    DocBin(docs=docs).to_disk("some.spacy")
    result = run("sparse", "some.spacy", "--labels", "LOC", "-o", "out")
    assert "ner: learned LOC from 10 documents" in result.stdout
    assert (
        "left out 1 of 11 documents. The first is document 9, 'Bob left': "
        "'Bob' (token 0) has no annotation of LOC"
    ) in result.stdout


def test_the_temperature_stays(folder):
    nlp = spacy.load("sparse")
    nlp.get_pipe("ner").temperature = 2.0
    nlp.to_disk("warm")
    run("warm", "new.spacy", "--labels", "LOC", "-o", "out")
    assert spacy.load("out").get_pipe("ner").temperature == 2


def bad(folder, *arguments):
    result = run(*arguments, exit_code=1)
    assert not (folder / "out").exists()
    assert not list(folder.glob(".unfinished*"))
    return " ".join(result.stderr.split())


def test_bad_input_writes_nothing(folder):
    out = ("-o", "out")
    message = bad(folder, "sparse", "new.spacy", "--labels", "PERSON", *out)
    assert message == "[ner] has the label PERSON already; its labels are PERSON"
    message = bad(folder, "sparse", "new.spacy", "--labels", "DRUG", *out)
    assert message == "[ner] none of the 9 documents has the new label DRUG; they have LOC"
    nlp = spacy.blank("xx")
    doc = Doc(nlp.vocab, words=["a", "b"], ents=["B-LOC", "B-ORG"])
    DocBin(docs=[doc]).to_disk("other.spacy")
    message = bad(folder, "sparse", "other.spacy", "--labels", "LOC", *out)
    assert "the documents have the unknown labels ORG" in message
    doc = Doc(nlp.vocab, words=["Ro", "me"], spaces=[False, False], ents=["B-LOC", "O"])
    DocBin(docs=[doc]).to_disk("tokens.spacy")
    message = bad(folder, "sparse", "tokens.spacy", "--labels", "LOC", *out)
    assert message == (
        "[ner] none of the 1 documents can be learned. The first, 'Rome': 'Rome' (token 0) has no "
        "annotation of LOC"
    )
    assert "folder of .spacy" in bad(folder, "sparse", "sparse/meta.json", "--labels", "LOC", *out)
    (folder / "broken.spacy").write_bytes(b"nothing")
    message = bad(folder, "sparse", "broken.spacy", "--labels", "LOC", *out)
    assert message.startswith("broken.spacy: cannot be read as a .spacy file")
    blank = spacy.blank("xx")
    blank.add_pipe("sentencizer")
    blank.to_disk("blank")
    message = bad(folder, "blank", "new.spacy", "--labels", "LOC", *out)
    assert message.startswith("blank: no component of spacy-bcrf among sentencizer; expected")
    result = run("sparse", "new.spacy", "--labels", "LOC", "-o", "neural", exit_code=1)
    assert "expected a new or empty folder" in result.stderr


def test_other_components_cannot_be_extended(folder):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_chunker", "chunker", config={"model": SPARSE})
    doc = Doc(nlp.vocab, words=["a", "b"])
    doc.spans["chunks"] = [doc[:1]]
    nlp.get_pipe("chunker").add_label("NP")
    nlp.initialize()
    nlp.to_disk("chunks")
    message = bad(folder, "chunks", "new.spacy", "--labels", "VP", "-o", "out")
    assert "only bcrf_ner, bcrf_spans and bcrf_tagger can be extended" in " ".join(message.split())
