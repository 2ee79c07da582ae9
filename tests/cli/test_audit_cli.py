"""The command `python -m spacy bcrf audit`."""

import json
from unittest.mock import Mock

import pytest
import spacy
from commands import command
from sentences import make_docs
from spacy.tokens import Doc, DocBin

from spacy_bcrf.judging import folds

run = command("audit")


def write(path, docs):
    DocBin(docs=docs, store_user_data=True).to_disk(path)


@pytest.fixture
def corpus(here):
    """A corpus of 36 sentences in which one place is annotated as a person."""
    vocab = spacy.blank("xx").vocab
    docs = [doc for _ in range(4) for doc in make_docs(vocab)]
    docs[5] = make_docs(vocab, wrong=9)[5]
    docs[5].ents = [ent for ent in docs[5].ents if ent.start == 2]
    write("corpus.spacy", docs)
    return here


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_audit_finds_the_errors(corpus):
    result = run("corpus.spacy", "-o", "out.jsonl", "--page", "out.html", "--folds", 2)
    records = read(corpus / "out.jsonl")
    found = {record["kind"]: record for record in records}
    assert [record["doc"] for record in records] == [5, 5]
    text = "Bob saw Kiel . "
    kind = found["type"]
    assert (kind["text"], kind["text"][kind["start"] : kind["end"]]) == (text, "Kiel")
    assert kind["label"] == "PERSON"
    assert kind["suggestion"] == {"start": 8, "end": 12, "label": "LOC"}
    missing = found["missing"]
    assert (missing["start"], missing["end"], missing["label"]) == (0, 3, None)
    assert missing["suggestion"] == {"start": 0, "end": 3, "label": "PERSON"}
    for record in records:
        assert record["p_gold"] < 0.1 < 0.9 < record["p_suggestion"] <= 1
    assert records[0]["score"] >= records[1]["score"] > 0
    assert "2 suspects in 36 documents with 71 annotations" in result.output
    assert '<span class="gold predicted">Kiel</span>' in (corpus / "out.html").read_text()
    # The results of the folds go at the end.
    assert {path.name for path in corpus.iterdir()} == {"corpus.spacy", "out.jsonl", "out.html"}


def test_copies_share_a_fold(here):
    """A pipeline that was trained on a copy of a document finds the copy's errors right."""
    right, wrong = (make_docs(spacy.blank("xx").vocab, wrong=n) for n in (0, 9))
    docs = [*right[:5], wrong[5], *right[6:]] * 4
    write("copies.spacy", docs)
    run("copies.spacy", "-o", "out.jsonl", "--folds", 2)
    assert {record["doc"] for record in read(here / "out.jsonl")} == {5, 14, 23, 32}


def test_finished_folds_are_not_trained_again(corpus, monkeypatch):
    train, n = folds.train_sparse_chain, []

    def fail_at_the_second(*args):
        n.append(1)
        if len(n) == 2:
            raise KeyboardInterrupt
        return train(*args)

    monkeypatch.setattr(folds, "train_sparse_chain", fail_at_the_second)
    args = ("corpus.spacy", "-o", "out.jsonl", "--folds", 3)
    run(*args, exit_code=130)
    assert not (corpus / "out.jsonl").exists()
    run(*args)
    assert len(n) == 2 + 2 and not (corpus / ".out.jsonl.folds").exists()
    resumed = (corpus / "out.jsonl").read_bytes()
    run(*args, "--work", "work")
    assert (corpus / "out.jsonl").read_bytes() == resumed
    assert len(n) == 4 + 3
    run(*args, "--work", "work")
    assert len(n) == 7
    # A damaged fold is named, and so is a folder of another corpus.
    for damaged in "[[{}]]", "[[]]":
        (corpus / "work/fold-1.json").write_text(damaged)
        result = run(*args, "--work", "work", exit_code=1)
        assert "fold-1.json: " in result.output and "delete it" in result.output
    write("corpus.spacy", make_docs(spacy.blank("xx").vocab))
    result = run(*args, "--work", "work", exit_code=1)
    assert "work: was started differently: corpus was" in result.output
    assert len(n) == 7


def test_an_error_keeps_finished_folds_and_removes_a_folder_without_any(corpus, monkeypatch):
    args = ("corpus.spacy", "-o", "out.jsonl", "--folds", 3)
    parts = corpus / ".out.jsonl.folds"
    error = Mock(side_effect=ValueError("no training"))
    monkeypatch.setattr(folds, "train_sparse_chain", error)
    run(*args, exit_code=1)
    assert not parts.exists()
    parts.mkdir()
    (parts / "0.spacy").touch()
    run(*args, exit_code=1)
    assert (parts / "0.spacy").exists()


def test_a_trained_pipeline_is_used_unchanged(pipeline, here):
    write("corpus.spacy", make_docs(spacy.blank("xx").vocab, wrong=1))
    result = run("corpus.spacy", pipeline / "model", "-p", "ner", "-o", "out.jsonl")
    assert "must not be trained on corpus.spacy" in result.output
    records = read(here / "out.jsonl")
    assert [(record["doc"], record["kind"]) for record in records] == [(0, "type")] * 2
    assert "review MODEL corpus.spacy --suspects out.jsonl" in result.step
    write("corpus.spacy", make_docs(spacy.blank("xx").vocab))
    result = run("corpus.spacy", pipeline / "model", "-p", "ner", "-o", "out.jsonl")
    assert "0 suspects in" in result.stdout and result.step is None


def test_tags_of_a_trained_tagger(pipeline, here):
    docs = make_docs(spacy.blank("xx").vocab)
    for doc in docs:
        doc[0].tag_ = "N"
    docs[3][0].tag_ = "V"
    write("corpus.spacy", docs)
    run("corpus.spacy", pipeline / "model", "-p", "tagger", "-o", "out.jsonl")
    (record,) = read(here / "out.jsonl")
    assert (record["doc"], record["label"], record["suggestion"]["label"]) == (3, "V", "N")


def test_a_config_is_trained_for_each_fold(corpus):
    config = """
    [paths]
    train = null
    dev = null
    [nlp]
    lang = "xx"
    pipeline = ["ner"]
    [components]
    [components.ner]
    factory = "bcrf_ner"
    [components.ner.model]
    @architectures = "spacy-bcrf.LinearChain.v1"
    templates = ["w[0]", "w[-1]"]
    objective = "crf"
    [corpora]
    [corpora.train]
    @readers = "spacy.Corpus.v1"
    path = ${paths.train}
    [corpora.dev]
    @readers = "spacy.Corpus.v1"
    path = ${paths.dev}
    [training]
    max_epochs = 10
    eval_frequency = 20
    """
    (corpus / "ner.cfg").write_text(config)
    run("corpus.spacy", "ner.cfg", "-o", "out.jsonl", "--folds", 2)
    assert {record["doc"] for record in read(corpus / "out.jsonl")} == {5}


def test_the_page_is_escaped(here):
    vocab = spacy.blank("xx").vocab
    bad = "<script>alert(1)</script>"
    docs = make_docs(vocab) * 3
    words = [bad, "saw", "Rome", "."]
    docs += [Doc(vocab, words=words, ents=[f"B-{bad}", "O", "O", "O"])] * 6
    docs += [Doc(vocab, words=words, ents=["O"] * 4)]  # an error, which the page shows
    write("corpus.spacy", docs)
    run("corpus.spacy", "-o", "o.jsonl", "--page", "o.html", "--folds", 2)
    page = (here / "o.html").read_text()
    assert page.count("<script") == 1
    assert "&lt;script&gt;alert(1)" in page


def no_entities(vocab):
    return [Doc(vocab, words=["Ann"])] * 9


def one_document(vocab):
    return make_docs(vocab)[:1]


def other_labels(vocab):
    return [Doc(vocab, words=["Ham"], ents=["B-FOOD"])] * 9


@pytest.mark.parametrize(
    "make, args, message",
    [
        (no_entities, (), "none of the 9 documents has entities"),
        (one_document, (), "1 distinct documents are too few for 5 folds"),
        (other_labels, ("model", "-p", "ner"), "the documents have the labels FOOD, but [ner] has"),
        (make_docs, ("model",), "pipe is missing; expected pipe to be one of tagger, ner"),
        (
            make_docs,
            ("blank",),
            "blank: no component of spacy-bcrf among none; expected a pipeline with",
        ),
        (make_docs, ("none.cfg",), "none.cfg: there is no such training config"),
        (make_docs, ("--page", "out.jsonl"), "out.jsonl: would replace the input out.jsonl"),
        (make_docs, ("--page", "corpus.spacy"), "corpus.spacy: would replace the input corpus.spa"),
    ],
)
def test_wrong_input_writes_nothing(pipeline, here, make, args, message):
    spacy.blank("xx").to_disk("blank")
    write("corpus.spacy", make(spacy.blank("xx").vocab))
    before = sorted(here.rglob("*"))
    args = [pipeline / "model" if arg == "model" else arg for arg in args]
    result = run("corpus.spacy", *args, "-o", "out.jsonl", exit_code=1)
    assert message in result.output
    assert sorted(here.rglob("*")) == before
