"""Texts that every command must survive: an empty one, and one that no tokenizer gets through."""

import json

import pytest
from commands import command
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_bcrf import loading
from spacy_bcrf.corpora import text_docs
from spacy_bcrf.corpora.formats import votes

COMMANDS = {
    "review": ("-o", "out"),
    "rank": ("-o", "out"),
    "distill": ("-o", "out"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_an_empty_text_passes_and_is_counted(pipeline, here, name, suffix):
    texts = ["Ann saw Rome .", "", "Bob saw Kiel ."]
    lines = [json.dumps({"text": x, "id": i}) for i, x in enumerate(texts)]
    if suffix == "csv":
        lines = ["id,text", *(f'{i},"{x}"' for i, x in enumerate(texts))]
    (here / f"in.{suffix}").write_text("\n".join(lines))
    result = command(name)(pipeline / "model", f"in.{suffix}", "-p", "ner", *COMMANDS[name])
    assert f"in.{suffix}: 1 empty text\n" in result.stderr and (here / "out").exists()


def test_redact_writes_an_empty_text(pipeline, here):
    texts = ["Ann saw Rome .", "", "Bob saw Kiel ."]
    (here / "in.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    options = ("-p", "ner", "--threshold", 0.3, "-o", "out.jsonl")
    command("redact")(pipeline / "model", "in.jsonl", *options)
    found = [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]
    assert len(found) == 3 and (found[1]["text"], found[1]["spans"]) == ("", [])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_text_that_takes_too_long_is_named(pipeline, here, name, monkeypatch):
    monkeypatch.setattr(text_docs, "SECONDS", 0.2)
    (here / "in.jsonl").write_text(json.dumps({"text": "(" * 20_000}))
    run = command(name)
    result = run(pipeline / "model", "in.jsonl", "-p", "ner", *COMMANDS[name], exit_code=1)
    assert "in.jsonl:1: took longer than 0.2 s" in result.output
    assert not (here / "out").exists()


@pytest.mark.parametrize("name", ["redact", "report", "calibrate"])
def test_a_gold_text_that_takes_too_long_is_named(pipeline, here, name, monkeypatch):
    monkeypatch.setattr(loading, "SECONDS", 0.2)
    doc = Doc(Vocab(), words=["(" * 20_000], spaces=[False], ents=["B-PER"])
    DocBin(docs=[doc]).to_disk("gold.spacy")
    options = {"redact": ["--threshold", 0.5, "--report", "leaks.json"]}.get(name, [])
    options += ["-p", "ner", "-o", "out.json"]
    result = command(name)(pipeline / "model", "gold.spacy", *options, exit_code=1)
    assert "((((': the tokenizer took longer than 0.2 s" in result.output
    assert not (here / "out.json").exists()


def test_a_text_of_annotators_that_takes_too_long_is_named(here, monkeypatch):
    monkeypatch.setattr(votes, "SECONDS", 0.2)
    (here / "in.jsonl").write_text(json.dumps({"text": "(" * 20_000, "spans": []}))
    result = command("distill")("in.jsonl", "-l", "en", "-o", "out", exit_code=1)
    assert "in.jsonl:1: the tokenizer took longer than 0.2 s" in result.output
