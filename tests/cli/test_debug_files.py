"""The command `python -m spacy bcrf debug` of .spacy files."""

import json

import pytest
import spacy
from commands import command
from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.readers.doc_files import write_all

set_extensions()
run = command("debug")
VOCAB = spacy.blank("xx").vocab
WORDS = ["Ann", "saw", "Rome"]


@pytest.fixture
def folder(here):
    full = Doc(VOCAB, words=WORDS, ents=["B-PER", "O", "B-LOC"])
    wrong = full.copy()
    wrong.spans["incorrect_spans"] = [Span(wrong, 0, 1, label="PER")]
    write_all([full] * 5, here / "many", shard=2)
    write_all([full, wrong], here / "wrong.spacy")
    write_all([Doc(VOCAB, words=WORDS, ents=["B-PER", "", ""])], here / "found.spacy")
    write_all([Doc(VOCAB, words=WORDS, tags=["N", "V", ""])], here / "tags.spacy")
    return here


def table(output, start):
    """Return the cells of the table after the line `start`."""
    lines = output.splitlines()
    lines = lines[lines.index(start) + 2 :]
    return [line.split() for line in lines[: lines.index("")]]


def test_a_table(folder):
    result = run("many")
    assert result.output.startswith("5 docs, 15 tokens\n[components.ner]\n")
    assert table(result.output, "[components.ner]")[2:] == [["many", "5", "5", "0", "0", "0"]]
    header, _, *rows = table(result.output, "many:")
    assert " ".join(header) == (
        "label docs entities ambiguous rejected forbidden tokens in O other missing"
    )
    assert rows == [[label, *"550005550"] for label in ("LOC", "PER")]


def test_the_next_step_has_all_files(folder):
    init, rest = "python -m spacy bcrf init --train many", "--output model/config.cfg"
    assert run("many").step == f"{init} {rest}"
    assert run("many", "found.spacy").step == f"{init} --dev found.spacy {rest}"
    assert run("many", "found.spacy", "wrong.spacy").step == (
        f"{init} --train found.spacy --train wrong.spacy {rest}"
    )


def test_several_corpora_and_contradictions(folder):
    result = run("many", "wrong.spacy")
    assert result.output.startswith("7 docs, 21 tokens")
    assert table(result.output, "[components.ner]")[2:] == [
        ["many", "5", "5", "0", "0", "0"],
        ["wrong.spacy", "2", "1", "0", "0", "1"],
    ]
    assert table(result.output, "wrong.spacy:")[2:] == [
        ["LOC", *"220011113"],
        ["PER", *"220111113"],
    ]
    lines = result.output.splitlines()
    assert lines[-4:-2] == [
        "Warning: wrong.spacy: 1 documents have forbidden annotation. Training treats them as "
        "unannotated. The first:",
        "- document 1, 'Ann saw Rome ': 'Ann' (tokens 0:1) is both PER and not PER",
    ]
    run("wrong.spacy", "--strict", exit_code=1)
    run("many", "--strict")


def test_documents_in_both_are_a_warning(folder):
    write_all([Doc(VOCAB, words=["Bob"], ents=["B-PER"])], folder / "new.spacy")
    output = run("many", "wrong.spacy", "new.spacy").output
    assert "Warning: 2 of 2 documents of wrong.spacy are in many too: " in output
    assert "new.spacy are in" not in output


def test_json(folder):
    found = json.loads(run("wrong.spacy", "--json").stdout)["ner"]["wrong.spacy"]
    assert (found["docs"], found["infeasible"]) == (2, 1)
    assert found["by_label"]["inside"] == {"LOC": 1, "PER": 1}


def test_settings_of_a_config_are_refused(folder):
    message = "--paths.train: only a training config has overrides"
    assert message in run("many", "--paths.train", "wrong.spacy", exit_code=1).stderr
    message = "c.cfg: a config sets labels itself"
    assert message in run("c.cfg", "--labels", "PER", exit_code=1).stderr


def test_labels_without_any_o_give_a_warning(folder):
    assert "Warning" not in run("many", "--labels", "PER,LOC").output
    result = run("found.spacy")
    assert "no token is annotated as outside of PER. " in result.output


def test_missing_and_unexpected_labels(folder):
    (folder / "labels.txt").write_text("PER\nORG\n")
    result = run("many", "--labels", "labels.txt")
    assert table(result.output, "many:")[3] == ["ORG", *"000000", "5", "10", "0"]
    assert "Warning: unexpected labels: LOC" in result.output


def test_span_groups(folder):
    doc = Doc(VOCAB, words=WORDS)
    doc.spans["sc"] = [Span(doc, 0, 1, label="PER"), *(Span(doc, 0, n, label="X") for n in (2, 3))]
    doc.spans["none"] = []
    write_all([doc], folder / "groups.spacy")
    output = run("groups.spacy").output
    assert output.splitlines()[:5] == [
        "1 doc, 3 tokens",
        "spans['none']: 0 spans",
        "spans['sc']: 3 spans: X 2, PER 1",
        "entities: 3 tokens missing",
        "[components.spans]",
    ]
    assert "groups.spacy: spans of 1 to 3" in output and "2 spans overlap an earlier" in output


def test_a_taggers_corpus(folder):
    output = run("tags.spacy").output
    assert output.splitlines()[:4] == [
        "1 doc, 3 tokens",
        "tag: 2 tokens annotated with 2 values, 1 missing; 0 with several allowed values",
        "entities: 3 tokens missing",
        "[components.tagger]",
    ]
    assert ["tags.spacy", "1", "0", "1", "0", "0"] in table(output, "[components.tagger]")


def test_a_chain_of_many_tags_is_named(folder):
    def docs(n, factory="ents"):
        for i in range(n):
            doc = Doc(VOCAB, words=WORDS, ents=[f"B-L{i}", "O", "O"] if factory == "ents" else None)
            if factory == "spans":
                doc.spans["sc"] = [Span(doc, 0, 1, label=f"L{i}")]
            yield doc

    write_all(docs(249), folder / "some.spacy")
    assert "Warning: [" not in run("some.spacy").output
    write_all(docs(250), folder / "many.spacy")
    assert "Warning: [ner] 250 labels have 1,001 tags" in run("many.spacy").output
    write_all(docs(250, "spans"), folder / "spans.spacy")
    assert "Warning: [" not in run("spans.spacy").output


def test_tables_of_long_labels_fit_a_line(folder):
    """22 labels of personal data in clinical notes once made lines of 258 columns."""
    names = [f"ID_TITULACION_PERSONAL_SANITA_{i:02}" for i in range(22)]
    for part in ("train", "dev"):
        words = [part, "saw", "Rome"]
        docs = [Doc(VOCAB, words=words, ents=[f"B-{name}", "O", "O"]) for name in names]
        docs[0].spans["sc"] = [Span(docs[0], 0, 1, label=name) for name in names]
        write_all(docs, folder / f"{part}.spacy")
    lines = run("train.spacy").output.splitlines()
    options = ("--train", "train.spacy", "--dev", "dev.spacy", "-o", "x/config.cfg")
    lines += command("init")(*options).output.splitlines()
    assert f"ner: 22 labels: {names[0]}, {names[1]} .." in lines
    assert [line for line in lines if len(line) > 120] == []


def test_a_corpus_without_annotation(folder):
    write_all([Doc(VOCAB, words=WORDS)], folder / "raw.spacy")
    assert run("raw.spacy").output.splitlines() == [
        "1 doc, 3 tokens",
        "entities: 3 tokens missing",
    ]


@pytest.mark.parametrize(
    "args, message",
    [
        (["no.spacy"], "no.spacy: found no such file"),
        (["bad.spacy"], "bad.spacy: cannot be read as a .spacy file"),
        (["none.spacy"], "none.spacy: has no documents"),
        (["brat"], "brat: the folder has no .spacy file; `convert` writes one\n"),
        (["many", "--labels", ","], ",: no labels; expected"),
        (["many", "--labels", "bad.json"], "bad.json: no JSON"),
    ],
)
def test_unreadable_input(folder, args, message):
    (folder / "bad.spacy").write_text("no")
    (folder / "bad.json").write_text("no")
    (folder / "brat").mkdir()
    (folder / "brat/a.ann").write_text("")
    write_all([], folder / "none.spacy")
    result = run(*args, exit_code=1)
    assert result.stderr.startswith(message) and result.stdout == ""
