"""The command `python -m spacy bcrf mask`."""

import pytest
import spacy
from commands import command
from spacy.tokens import Doc

from spacy_bcrf.corpora.doc_files import read_docs, write_all

run = command("mask")
VOCAB = spacy.blank("xx").vocab


@pytest.fixture
def corpus(here):
    docs = [Doc(VOCAB, words=["Ann", "saw", "Rome"], ents=["B-PER", "O", "B-LOC"])] * 20
    write_all(docs, here / "full.spacy")
    return here


def test_by_label(corpus):
    result = run("full.spacy", "masked", "--by-label")
    assert result.output.splitlines() == [
        "masked/LOC.spacy: 10 docs, 10 of 20 entities",
        "masked/PER.spacy: 10 docs, 10 of 20 entities",
    ]
    for doc in read_docs(corpus / "masked/PER.spacy", VOCAB):
        assert list(doc._.annotated_labels) == ["PER"] and doc.ents[0].label_ == "PER"


def test_drop_and_forget_are_seeded(corpus):
    outputs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        result = run("full.spacy", f"{name}.spacy", "--drop", "0.5", "--seed", seed)
        assert "20 docs, " in result.output and " of 40 entities, 0 of 60 tokens" in result.output
        outputs.append(
            [[e.text for e in d.ents] for d in read_docs(corpus / f"{name}.spacy", VOCAB)]
        )
    assert outputs[0] == outputs[1] != outputs[2]
    result = run("full.spacy", "d.spacy", "--forget", "1")
    assert "20 docs, 0 of 40 entities, 60 of 60 tokens missing" in result.output


@pytest.mark.parametrize(
    "args, message",
    [
        (("full.spacy", "x.spacy"), "expected one of --by-label, --drop SHARE and --forget SHARE"),
        (("nope.spacy", "x.spacy", "--drop", "0.5"), "nope.spacy: found no such file"),
        (("full.spacy", "x.txt", "--drop", "0.5"), "x.txt: expected the name of a .spacy file"),
        (("holes.spacy", "x.spacy", "--drop", "0.5"), "document 0, 'Ann saw Rome ', has missing"),
    ],
)
def test_wrong_input_is_an_error_without_output(corpus, args, message):
    doc = Doc(VOCAB, words=["Ann", "saw", "Rome"], ents=["B-PER", "", "O"])
    write_all([doc], corpus / "holes.spacy")
    result = run(*args, exit_code=1)
    assert message in result.output
    assert not list(corpus.glob("*x.*"))


def test_by_label_needs_a_new_folder_and_writes_it_atomically(corpus):
    run("full.spacy", "masked", "--by-label")
    again = run("full.spacy", "masked", "--by-label", exit_code=1)
    assert "masked: expected a new or empty folder" in again.output
    doc = Doc(VOCAB, words=["Ann", "saw", "Rome"], ents=["B-PER", "O", "B-LOC/CITY"])
    write_all([doc], corpus / "slash.spacy")
    result = run("slash.spacy", "other", "--by-label", exit_code=1)
    assert "label 'LOC/CITY' cannot be the name of a file" in result.output
    assert {path.name for path in corpus.iterdir()} == {"full.spacy", "slash.spacy", "masked"}


def test_others_without_drop(corpus):
    result = run("full.spacy", "x.spacy", "--forget", "0.5", "--others", "missing", exit_code=1)
    assert "--others is only for --drop" in result.output
