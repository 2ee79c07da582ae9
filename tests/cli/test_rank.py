"""The command `python -m spacy bcrf rank`."""

import json

import pytest
import spacy
from commands import command

from spacy_bcrf.cli.rank import Reader
from spacy_bcrf.io.text import MAX_LINE

run = command("rank")
TEXTS = ["Ann saw Rome .", "", "Why on earth not ?", "Bob saw Oslo .", "Ann saw Rome ."]


@pytest.fixture
def folder(here):
    lines = [json.dumps({"text": text, "id": i}) for i, text in enumerate(TEXTS)]
    (here / "texts.jsonl").write_text("\n".join(lines) + "\n\n")
    return here


def test_ranks_by_entropy_per_token(pipeline, folder):
    result = run(pipeline / "model", "texts.jsonl", "--pipe", "ner")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert "5 documents ranked by entropy, 5 written" in result.stderr
    assert sorted(record["id"] for record in records) == [0, 1, 2, 3, 4]
    assert records[0]["text"] == "Why on earth not ?"
    config = {"components": {"ner": {"annotate": ["entropy"]}}}
    nlp = spacy.load(pipeline / "model", config=config)
    for record in records:
        assert record["text"] == TEXTS[record["id"]]
        expected = nlp(record["text"])._.entropy_per_token
        assert record["uncertainty"] == pytest.approx(expected, abs=1e-5)
    uncertainty = [record["uncertainty"] for record in records]
    assert uncertainty == sorted(uncertainty, reverse=True)
    same = [record["id"] for record in records if record["text"] == TEXTS[0]]
    assert same == [0, 4]


@pytest.mark.parametrize("by", ["confidence", "margin"])
def test_other_measures(pipeline, folder, by):
    run(pipeline / "model", "texts.jsonl", "-p", "ner", "--by", by, "-o", "out.jsonl")
    nlp = spacy.load(pipeline / "model")
    records = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(records) == len(TEXTS)
    for record in records:
        doc = nlp.make_doc(record["text"])
        (alternatives,) = nlp.get_pipe("ner").nbest([doc], n=2)
        best, second = [a.probability for a in alternatives] + [0.0] * (2 - len(alternatives))
        expected = 1 - best if by == "confidence" else 1 - (best - second)
        assert record["uncertainty"] == pytest.approx(expected, abs=1e-5)


def test_n_limits_the_output(pipeline, folder):
    run(pipeline / "model", "texts.jsonl", "-p", "tagger", "-n", 2, "-o", "out.jsonl")
    assert len((folder / "out.jsonl").read_text().splitlines()) == 2


BAD = {
    "{": "no JSON: Expecting property name enclosed in double quotes at column 2",
    '{"txt": "x"}': 'no "text" that is a string',
    '["text"]': 'expected an object, got ["text"]',
    "[" * 100_000: "no JSON that can be read: nested too deep",
    '{"text": "x", "score": 1e400}': "1e400 is not a finite number",
    '{"text": "x", "text": "y"}': 'an object has 2 values of "text"; expected one',
    " " * (2 * MAX_LINE + 3) + '{"text": "x"}': "the line is longer than 16 MiB; expected one text",
    r'{"text": "\ud800 x"}': r"\ud800 is half a surrogate pair",
    r'{"text": "x", "note": "\udfff"}': r"\udfff is half a surrogate pair",
    json.dumps({"text": "a " * 600_000}): "[E088] Text of length 1200000 exceeds",
}


@pytest.mark.parametrize("line", BAD, ids=lambda line: line[:30])
def test_bad_lines_are_errors_unless_skipped(tmp_path, line):
    path = tmp_path / "texts.jsonl"
    path.write_text(f'{{"text": "a"}}\n\n{line}\n{line}\n{{"text": "b"}}\n')
    steps = []
    with pytest.raises(ValueError) as caught:
        list(Reader(path, False, spacy.blank("xx").make_doc).read(steps.append))
    assert str(caught.value).startswith(f"{path}:3: {BAD[line]}")
    reader = Reader(path, True, spacy.blank("xx").make_doc)
    assert [candidate.doc.text for candidate in reader.read(steps.append)] == ["a", "b"]
    assert sum(steps) >= path.stat().st_size
    assert reader.n_bad == 2 and reader.first_bad.startswith(f"{path}:3: {BAD[line]}")


def test_skip_bad(pipeline, folder):
    path = folder / "texts.jsonl"
    path.write_text(f"{path.read_text()}{{\n")
    args = (pipeline / "model", "texts.jsonl", "-p", "ner", "-o", "out.jsonl")
    stopped = run(*args, exit_code=1)
    assert "texts.jsonl:7: no JSON: " in stopped.output
    assert not list(folder.glob("*out.jsonl*"))
    skipped = run(*args, "--skip-bad")
    assert "skipped 1 bad lines, the first: texts.jsonl:7: no JSON: " in skipped.output
    assert len((folder / "out.jsonl").read_text().splitlines()) == len(TEXTS)


@pytest.mark.parametrize(
    "name, message",
    [
        ("nope.jsonl", "nope.jsonl: there is no such file; expected JSON lines"),
        ("folder", "folder: expected a file, because rank reads it twice"),
        ("dev.spacy", 'dev.spacy: is no plain text; expected JSON lines, {"text": "..."} on each'),
    ],
)
def test_other_inputs(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "dev.spacy").touch()
    assert run("no_model", name, exit_code=1).output.startswith(message)


def test_earlier_components_annotate_first(pipeline, folder):
    nlp = spacy.load(pipeline / "model")
    ruler = nlp.add_pipe("entity_ruler", before="ner")
    ruler.add_patterns([{"label": "LOC", "pattern": "earth"}])
    nlp.to_disk(folder / "ruled")
    run(folder / "ruled", "texts.jsonl", "-p", "ner", "-o", "out.jsonl")
    nlp.get_pipe("ner").annotate = ["entropy"]
    for line in (folder / "out.jsonl").read_text().splitlines():
        record = json.loads(line)
        expected = nlp(record["text"])._.entropy_per_token
        assert record["uncertainty"] == pytest.approx(expected, abs=1e-5)


def test_a_disabled_component(pipeline, folder):
    nlp = spacy.load(pipeline / "model")
    nlp.disable_pipe("ner")
    nlp.to_disk(folder / "disabled")
    result = run(folder / "disabled", "texts.jsonl", "-p", "ner", exit_code=1)
    assert "disabled: ner is disabled; remove it from disabled in [nlp]" in result.output
