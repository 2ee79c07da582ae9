"""The command `python -m spacy bcrf convert` for JSON, and training on its output."""

import json
from pathlib import Path

import pytest
import spacy
from commands import command
from spacy.cli.train import train
from tiny_training import network

from spacy_bcrf.corpora.doc_files import find_files, read_docs

run = command("convert")
EXPORTS = Path(__file__).parent.parent / "corpora/exports"
VOCAB = spacy.blank("xx").vocab
ADA = {"text": "Ada lived in Rome", "spans": [{"start": 0, "end": 3, "label": "PER"}]}
CUT = {"text": "Ada lived in Rome", "spans": [{"start": 0, "end": 2, "label": "PER"}]}


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def folder(here):
    write(here / "good.jsonl", ADA, {**ADA, "complete": False})
    write(here / "cut.jsonl", ADA, CUT)
    return here


def test_good_records(folder):
    result = run("good.jsonl", "out.spacy", "--lang", "en", "--labels", "PER,LOC")
    assert result.stderr == ""
    assert result.stdout == (
        "out.spacy: 2 records = 2 docs + 0 merged + 0 ignored + 0 skipped; "
        "2 spans = 2 entities + 0 ambiguous + 0 rejected + 0 repeated + 0 ignored + 0 skipped; "
        "8 tokens, 3 of them missing\n"
    )
    assert [[e.label_ for e in doc.ents] for doc in read_docs(Path("out.spacy"), VOCAB)] == [
        ["PER"],
        ["PER"],
    ]


def test_missing_tokens_of_a_span_group(folder):
    result = run("good.jsonl", "out.spacy", "--spans-key", "sc")
    # The second record is partial, with a span of one of its four tokens.
    assert result.stdout.endswith("; 8 tokens, 3 of them missing\n")


def test_bad_records(folder):
    result = run("cut.jsonl", "out.spacy")
    problem = (
        "cut.jsonl:2: span 0:2 'Ad' PER cuts tokens of 'Ada'; "
        'expected 0:3, or a record with "tokens"'
    )
    assert result.stderr == f"{problem}\n"
    assert result.stdout.startswith(
        "out.spacy: 2 records = 1 docs + 0 merged + 0 ignored + 1 skipped (1 cut token); "
        "2 spans = 1 entities + 0 ambiguous + 0 rejected + 0 repeated + 0 ignored + 1 skipped; "
    )
    result = run("cut.jsonl", "out.spacy", "--strict", exit_code=1)
    assert result.stdout == ""
    assert result.stderr.startswith(f"{problem}\nout.spacy: not written, because --strict")


@pytest.mark.parametrize(
    "name", ["prodigy_manual.jsonl", "prodigy_teach.jsonl", "label_studio.json"]
)
def test_the_format_is_detected(folder, name):
    result = run(EXPORTS / name, "out.spacy")
    assert "4 records = " in result.output and " + 0 skipped" in result.output
    tool = "label-studio" if name.startswith("label") else "prodigy"
    assert run(EXPORTS / name, "again.spacy", "--format", tool).output == result.output.replace(
        "out.spacy", "again.spacy"
    )


def test_shards_of_all_formats(folder):
    (folder / "a.conll").write_text("Ada\tB-PER\n\nleft\t-\n\nRome\t_\n")
    for source in ("good.jsonl", "a.conll"):
        run(source, f"{source}.d", "--shard", "1")
        files = find_files(folder / f"{source}.d")
        assert len(files) == (2 if source == "good.jsonl" else 3)
    docs = list(read_docs(folder / "a.conll.d", VOCAB))
    assert [token.ent_iob_ for doc in docs for token in doc] == ["B", "", ""]


@pytest.mark.parametrize(
    "args, message",
    [
        (["nowhere.jsonl", "o.spacy"], "nowhere.jsonl: cannot be read: No such file"),
        (["good.jsonl", "o.txt"], "o.txt: expected the name of a .spacy file to write"),
        (["good.jsonl", "o.spacy", "-l", "qqq"], "language 'qqq': "),
        (["good.jsonl", "o.spacy", "--labels", ","], ",: no labels"),
        (["good.jsonl", "a.conll", "o.spacy"], "JSON and brat cannot be converted with CoNLL"),
        (["a.conll", "o.spacy", "--labels", "PER"], "--labels is only for JSON"),
        (["good.jsonl", "good.jsonl/o.spacy"], "good.jsonl/o.spacy: cannot be written: "),
        (["good.jsonl", "full", "--shard", "1"], "full: expected a new or empty folder"),
    ],
)
def test_bad_input_is_one_line_on_stderr(folder, args, message):
    (folder / "a.conll").write_text("Ada\tB-PER\n")
    (folder / "full").mkdir()
    (folder / "full/x").touch()
    before = sorted(folder.rglob("*"))
    result = run(*args, exit_code=1)
    assert result.stderr.startswith(message) and result.stderr.count("\n") == 1
    assert result.stdout == "" and sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_training_on_partial_annotation(folder):
    name, city = ({"start": 0, "end": 3, "label": "PER"}, {"start": 13, "end": 17, "label": "LOC"})
    text = {"text": "Ada lived in Rome"}
    records = [
        text | {"spans": [name], "annotated_labels": ["PER"]},
        text | {"spans": [city], "annotated_labels": ["LOC"]},
        text | {"spans": [{**name, "label": ["PER", "LOC"]}], "complete": False},
        text | {"rejected": [{**city, "label": "PER"}], "complete": False},
    ]
    write(folder / "holes.jsonl", *records * 5)
    run("holes.jsonl", "holes.spacy")
    run("good.jsonl", "dev.spacy")
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", "ner", config={"model": network()})
    reader = {"@readers": "spacy-bcrf.PartialCorpora.v1"}
    nlp.config["corpora"] = {
        "train": {**reader, "corpora": {"all": {"path": "holes.spacy"}}},
        "dev": {"@readers": "spacy.Corpus.v1", "path": "dev.spacy"},
    }
    nlp.config.to_disk(folder / "config.cfg")
    train(folder / "config.cfg", folder / "out", overrides={"training.max_steps": 5})
    assert spacy.load(folder / "out/model-last").get_pipe("ner").labels == ("LOC", "PER")
