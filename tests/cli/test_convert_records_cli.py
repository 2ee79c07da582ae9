"""The command `python -m spacy bcrf convert` for JSON, and training on its output."""

import json
from pathlib import Path

import pytest
import spacy
from commands import command
from spacy.cli.train import train
from tiny_training import network

from spacy_bcrf.readers.doc_files import find_files, read_docs

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
        "out.spacy: 2 records read = 2 in 2 docs; 2 spans = 2 entities; "
        "8 tokens, 3 of them without entity annotation\n"
    )
    assert [[e.label_ for e in doc.ents] for doc in read_docs(Path("out.spacy"), VOCAB)] == [
        ["PER"],
        ["PER"],
    ]


def test_missing_tokens_of_a_span_group(folder):
    result = run("good.jsonl", "out.spacy", "--spans-key", "sc")
    # The second record is partial, with a span of one of its four tokens.
    assert result.stdout.endswith("; 8 tokens, 3 of them without entity annotation\n")


def test_a_span_that_cuts_a_token(folder):
    problem = (
        "cut.jsonl:2: span 0:2 'Ad' PER cuts tokens of 'Ada'; expected 0:3, or "
        "`convert --align` contract, expand or split"
    )
    result = run("cut.jsonl", "out.spacy")
    assert result.stderr == f"{problem}\n"
    assert result.stdout == (
        "out.spacy: 2 records read = 2 in 2 docs; 2 spans = 1 entity + 1 left out (1 cut tokens);"
        " 8 tokens, 1 of them without entity annotation\n"
    )
    result = run("cut.jsonl", "new.spacy", "--strict", exit_code=1)
    assert result.stdout == ""
    assert result.stderr.startswith(
        f"{problem}\nnew.spacy: not written, because `convert --strict` leaves"
    )
    for align, entity in (("expand", "Ada"), ("split", "Ad")):
        run("cut.jsonl", "out.spacy", "--align", align, "--strict")
        _, doc = read_docs(Path("out.spacy"), VOCAB)
        assert [(ent.text, ent.label_) for ent in doc.ents] == [(entity, "PER")]
        assert doc.text == CUT["text"]


def test_more_than_a_tenth_of_the_records_with_a_problem(folder):
    bad = {"text": "Ada", "spans": [{"start": 0, "end": 9, "label": "PER"}]}
    write(folder / "one.jsonl", *[ADA] * 9, bad)
    result = run("one.jsonl", "out.spacy")
    assert result.stdout.startswith(
        "out.spacy: 10 records read = 9 in 9 docs + 1 left out (1 outside the text); "
        "10 spans = 9 entities + 1 in left out records; "
    )
    (folder / "out.spacy").unlink()
    write(folder / "two.jsonl", *[ADA] * 8, bad, bad)
    result = run("two.jsonl", "out.spacy", exit_code=1)
    assert not (folder / "out.spacy").exists() and result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith(
        "out.spacy: not written, because 2 of 10 records have a problem; `convert "
        "--skip-malformed` leaves "
    )
    run("two.jsonl", "out.spacy", "--skip-malformed")
    assert len(list(read_docs(Path("out.spacy"), VOCAB))) == 8


def test_files_of_all_formats_together(folder):
    (folder / "a.conll").write_text("Ada\tB-PER\n\nBonn\tB-LOC\n")
    result = run("good.jsonl", "a.conll", "out.spacy", "--labels", "PER", "--skip-malformed")
    assert result.stderr == "a.conll:3: unknown LOC; expected PER\n"
    assert result.stdout.startswith(
        "out.spacy: 4 records read = 3 in 3 docs + 1 left out (1 unknown label); 4 spans = "
    )


def test_a_text_that_keeps_the_tokenizer_busy_is_left_out(folder):
    write(folder / "bomb.jsonl", ADA, {"text": "(" * 20_000, "spans": []})
    result = run("bomb.jsonl", "out.spacy", "--lang", "en", "--timeout", 0.2, "--skip-malformed")
    assert result.stderr == (
        "bomb.jsonl:2: the tokenizer took longer than 0.2 s (see `convert --timeout`)\n"
    )


def test_a_text_of_more_than_a_million_characters(folder):
    write(folder / "long.jsonl", {"text": "Ada left. " * 110_000, "spans": []})
    assert "330,000 tokens" in run("long.jsonl", "out.spacy", "--lang", "en").stdout


def test_utf16_without_its_mark_is_refused(folder):
    (folder / "u.conll").write_bytes("Ada\tB-PER\nran\tO\n".encode("utf-16-le"))
    result = run("u.conll", "out.spacy", exit_code=1)
    assert "u.conll:1: has NUL characters, as UTF-16 has" in result.stderr


@pytest.mark.parametrize(
    "name", ["prodigy_manual.jsonl", "prodigy_teach.jsonl", "label_studio.json"]
)
def test_the_format_is_detected(folder, name):
    result = run(EXPORTS / name, "out.spacy")
    assert "4 records read = " in result.output and "left out (" not in result.output
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
        (["good.jsonl", "o.txt"], "o.txt: expected a file with the suffix .spacy"),
        (["good.jsonl", "o.spacy", "--labels", ","], ",: no labels"),
        (["good.jsonl", "o.spacy", "--labels", "O,,B-X"], "O,,B-X: label 2, '', is blank or rep"),
        (["good.jsonl", "o.spacy", "--labels", "O,X,X"], "O,X,X: label 3, 'X', is blank or rep"),
        (["good.jsonl", "good.spacy"], "good.spacy: would replace the input good.jsonl"),
        (["good.jsonl", "good.jsonl/o.spacy"], "good.jsonl/o.spacy: cannot be written: "),
        (["good.jsonl", "full", "--shard", "1"], "full: expected a new or empty folder"),
    ],
)
def test_bad_input_is_one_line_on_stderr(folder, args, message):
    (folder / "a.conll").write_text("Ada\tB-PER\n")
    (folder / "full").mkdir()
    (folder / "good.spacy").symlink_to("good.jsonl")
    (folder / "full/x").touch()
    before = sorted(folder.rglob("*"))
    result = run(*args, exit_code=1)
    assert result.stderr.startswith(message) and result.stderr.count("\n") == 1
    assert result.stdout == "" and sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("more", [{}, {"answer": "accept"}])
def test_lists_that_no_reader_takes_are_counted_by_name(folder, more):
    tokens = {"tokens": ["Ada", "left"], "pos_tags": ["NN", "VB"], **more}
    spans = [{"token_start": 0, "token_end": 0, "label": "PER"}]
    records = [
        {**tokens, "spans": spans, "relations": [{"head": 0}], "options": [{"id": 1}]},
        {**tokens, "text": "Ada left", "spans": spans, "relations": [], "meta": {"of": [1]}},
    ]
    write(folder / "a.jsonl", *records)
    result = run("a.jsonl", "a.spacy")
    for expected in ('2 lists "pos_tags"', '1 lists "relations"', '1 lists "options"'):
        assert f"{expected} left out" in result.stdout
    assert result.stdout.count("lists") == 3


def test_the_list_that_a_reader_takes_is_not_counted(folder):
    write(folder / "a.jsonl", {"tokens": ["Ada", "left"], "ner_tags": ["B-PER", "O"]})
    assert "lists" not in run("a.jsonl", "a.spacy").stdout


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
