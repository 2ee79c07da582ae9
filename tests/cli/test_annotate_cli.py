"""The command `python -m spacy bcrf annotate`."""

import bz2
import csv
import errno
import gzip
import json
import lzma
import os
import random
import re
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import spacy
from annotate_outputs import check_once, read_lines, read_rows
from commands import command
from spacy.tokens import DocBin

from spacy_bcrf.bulk.annotate import Progress
from spacy_bcrf.bulk.manifest import Manifest, describe_inputs
from spacy_bcrf.bulk.predictor import Predictor
from spacy_bcrf.bulk.shards import Finished, RunCounts
from spacy_bcrf.bulk.worker import BulkError
from spacy_bcrf.corpora.texts import Rejected
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.readers.doc_files import read_docs, write_all

run = command("annotate")
TEXTS = ["Ann saw Rome .", "Why on earth not ?", "Bob saw Oslo .", 'Eve, "x" saw Kiel .']


@pytest.fixture(scope="module")
def nlp(pipeline):
    config = {"components": {"ner": {"annotate": ["confidence"]}}}
    return spacy.load(pipeline / "model", config=config)


def expected_spans(nlp, text):
    doc = nlp(text)
    return [
        {"start": e.start_char, "end": e.end_char, "label": e.label_, "probability": e._.confidence}
        for e in doc.ents
    ]


def write_jsonl(path, texts, **more):
    lines = [json.dumps({"id": i, "text": text, **more}) for i, text in enumerate(texts)]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")


def test_rows_have_ids_offsets_probabilities_and_meta(pipeline, nlp, here):
    write_jsonl(here / "a.jsonl", TEXTS, source={"page": 3})
    result = run(pipeline / "model", "a.jsonl", "-o", "out", "-p", "ner")
    assert "4 documents read, 4 written to out, 0 failed" in result.output
    rows = read_rows(here / "out")
    assert [row["text"] for row in rows] == TEXTS and [row["id"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        assert row["meta"] == {"source": {"page": 3}}
        spans = [{k: v for k, v in span.items() if k != "pipe"} for span in row["spans"]]
        for span, want in zip(spans, expected_spans(nlp, row["text"]), strict=True):
            assert span.pop("probability") == pytest.approx(want.pop("probability"), abs=1e-5)
            assert span == want
    assert not (here / "out" / "errors.jsonl").exists()


def test_all_components_are_written_by_default(pipeline, nlp, here):
    write_jsonl(here / "a.jsonl", TEXTS[:1])
    run(pipeline / "model", "a.jsonl", "-o", "out")
    (row,) = read_rows(here / "out")
    tags = [span["label"] for span in row["spans"] if span["pipe"] == "tagger"]
    assert tags == [token.tag_ for token in nlp(TEXTS[0])]
    assert sum(span["pipe"] == "ner" for span in row["spans"]) == 2


def write_csv(path, delimiter=","):
    with path.open("w", newline="", encoding="utf8") as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerow(["id", "text", "year"])
        rows.writerows([i, text, 1990 + i] for i, text in enumerate(TEXTS))


def test_formats_of_inputs(pipeline, here):
    plain = "\n".join(TEXTS).encode()
    (here / "a.txt").write_bytes(plain)
    (here / "b.txt.gz").write_bytes(gzip.compress(plain))
    (here / "c.txt.xz").write_bytes(lzma.compress(plain))
    (here / "d.txt.bz2").write_bytes(bz2.compress(plain))
    (here / "e.json").write_text(json.dumps([{"text": text} for text in TEXTS]))
    write_csv(here / "f.csv")
    write_csv(here / "g.tsv", "\t")
    write_all(map(spacy.blank("xx").make_doc, TEXTS), here / "h.spacy")
    (here / "ignored.md").touch()
    result = run(pipeline / "model", here, "-o", here.parent / "out_formats", "--shard", 5)
    assert "skipped 1 file with other extensions" in result.output
    rows = read_rows(here.parent / "out_formats")
    assert len(rows) == 8 * len(TEXTS)
    for row, text in zip(rows, TEXTS * 8, strict=True):
        assert row["text"] == text
        # The other texts of a batch change the last digit of a probability.
        expected = [pytest.approx(span, abs=2e-6) for span in rows[TEXTS.index(text)]["spans"]]
        assert row["spans"] == expected
    assert rows[0]["id"] == f"{here / 'a.txt'}:1" and rows[-1]["id"] == f"{here / 'h.spacy'}:4"
    assert rows[20]["id"] == "0" and rows[20]["meta"] == {"year": "1990"}


def test_a_file_as_a_document(pipeline, here):
    (here / "in").mkdir()
    text = "Ann saw Rome .\r\n\nBob saw Oslo .\n"
    (here / "in" / "a.txt").write_bytes(text.encode())
    run(pipeline / "model", "in/*.txt", "-o", "out", "--whole-files")
    (row,) = read_rows(here / "out")
    assert row["text"] == text and row["id"] == "in/a.txt"


def test_parquet_in_and_out(pipeline, here):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    day = datetime(2020, 2, 3, 4, 5, 6)
    types = {
        "score": (pa.float64(), [0.5, None, float("nan"), 2.0]),
        "n": (pa.int32(), [1, 2, 3, None]),
        "day": (pa.timestamp("us"), [day, None, day, day]),
        "price": (pa.decimal128(9, 2), [Decimal("1.50"), None, None, Decimal("2.00")]),
        "kept": (pa.bool_(), [True, False, None, None]),
        "links": (pa.list_(pa.struct([("to", pa.string())])), [[{"to": "x"}], [], None, None]),
        "spans": (pa.string(), ["a", "b", "c", "d"]),
    }
    meta = {name: pa.array(values, kind) for name, (kind, values) in types.items()}
    parquet.write_table(pa.table({"body": TEXTS, "key": [7, 8, 9, 10], **meta}), here / "a.parquet")
    columns = ("--text-column", "body", "--id-column", "key")
    run(pipeline / "model", "a.parquet", "-o", "out", "-f", "parquet", "--shard", 3, *columns)
    schemas = {str(parquet.read_schema(path)) for path in (here / "out" / "shards").iterdir()}
    assert len(schemas) == 1
    table = parquet.read_table(here / "out" / "shards")
    bounds = [pa.field("start", pa.int64()), pa.field("end", pa.int64())]
    span = [("pipe", pa.string()), *bounds, ("label", pa.string()), ("probability", pa.float64())]
    assert table.schema.field("spans").type == pa.list_(pa.struct(span))
    for name in types.keys() - {"spans"}:
        assert table[name].combine_chunks().equals(meta[name]) or name == "score"
    assert [repr(x) for x in table["score"].to_pylist()] == ["0.5", "None", "nan", "2.0"]
    assert [json.loads(text) for text in table["meta"].to_pylist()] == [
        {"spans": letter} for letter in "abcd"
    ]
    run(pipeline / "model", "a.parquet", "-o", "json", *columns)
    lines = read_rows(here / "json")
    for row, line in zip(table.to_pylist(), lines, strict=True):
        # The other texts of a batch change the last digit of a probability.
        spans = [pytest.approx(span, abs=2e-6) for span in line["spans"]]
        assert row["id"] == str(line["id"]) and row["spans"] == spans
    assert table["text"].to_pylist() == TEXTS
    assert lines[0]["meta"]["day"] == "2020-02-03 04:05:06" and lines[2]["meta"]["score"] is None


def test_parquet_of_tokens_alone(pipeline, here):
    pa = pytest.importorskip("pyarrow")
    words = [text.split() for text in TEXTS]
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"tokens": words}), "a.parquet")
    run(pipeline / "model", "a.parquet", "-o", "out")
    assert [row["text"].split() for row in read_rows(here / "out")] == words


def test_parquet_rows_without_python_values_are_failures(pipeline, here):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    offsets, characters = pa.py_buffer(np.array([0, 1, 2, 3, 4], "int32")), pa.py_buffer(b"ab\xffc")
    text = pa.Array.from_buffers(pa.string(), 4, [None, offsets, characters])
    seconds = pa.array([0, 10**13, 1, 2], pa.timestamp("s"))  # of the year 318,857
    parquet.write_table(pa.table({"text": text, "at": seconds}), here / "a.parquet")
    run(pipeline / "model", "a.parquet", "-o", "out", exit_code=3)
    assert [row["text"] for row in read_rows(here / "out")] == ["a", "c"]
    errors = read_lines(here / "out" / "errors.jsonl")
    assert [error["id"] for error in errors] == ["a.parquet:2", "a.parquet:3"]
    assert all(error["reason"].startswith("cannot be read: ") for error in errors)


def test_parquet_columns_of_json_lines(pipeline, here):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    metas = [
        {"year": 1990, "score": 1, "mixed": 1, "flag": True, "tags": ["x"], "none": None},
        {"year": 1991, "score": 0.5, "mixed": "a", "text": "other"},
        *({} for _ in range(1000)),
        # No later value is converted or lost.
        {"year": "later", "score": 2**60 + 1, "flag": 1, "new": 5},
    ]
    lines = [{"body": TEXTS[i % 4], **fields} for i, fields in enumerate(metas)]
    (here / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (here / "b.csv").write_text("body,year,place\nAnn saw Rome .,1990,x\n")
    (here / "c.txt").write_text("Ann saw Rome .")
    options = ("-f", "parquet", "--text-column", "body", "-p", "tagger")
    run(pipeline / "model", here, "-o", here.parent / "typed", *options)
    table = parquet.read_table(here.parent / "typed" / "shards")
    types = {"score": pa.float64(), "flag": pa.bool_(), "place": pa.string()}
    assert {name: table.schema.field(name).type for name in table.column_names[3:-1]} == types
    rows = table.to_pylist()
    for row, fields in zip(rows, metas, strict=False):
        others = json.loads(row["meta"] or "{}")
        found = {name: row[name] for name in types if row[name] is not None}
        assert found.keys().isdisjoint(others) and {**found, **others} == fields
    assert (rows[-2]["place"], json.loads(rows[-2]["meta"])) == ("x", {"year": "1990"})
    assert rows[-1]["meta"] is None


def test_spacy_out(pipeline, nlp, here):
    write_jsonl(here / "a.jsonl", TEXTS, year=1990)
    run(pipeline / "model", "a.jsonl", "-o", "out", "-f", "spacy", "--shard", 3)
    docs = list(read_docs(here / "out" / "shards", nlp.vocab))
    assert [doc.text for doc in docs] == TEXTS
    for i, doc in enumerate(docs):
        assert doc.user_data["id"] == i and json.loads(doc.user_data["meta"]) == {"year": 1990}
        assert [(e.text, e.label_) for e in doc.ents] == [
            (e.text, e.label_) for e in nlp(doc.text).ents
        ]
        assert all(ent._.confidence > 0 for ent in doc.ents)
    # The output is an input that keeps words, ids and meta data.
    run(pipeline / "model", "out/shards", "-o", "again")
    again = read_rows(here / "again")
    assert [(row["id"], row["text"], row["meta"]["year"]) for row in again] == [
        (i, text, 1990) for i, text in enumerate(TEXTS)
    ]


def test_alternatives(pipeline, nlp, here):
    write_jsonl(here / "a.jsonl", TEXTS)
    run(pipeline / "model", "a.jsonl", "-o", "out", "-p", "ner", "--alternatives", 3, "--no-text")
    for row, text in zip(read_rows(here / "out"), TEXTS, strict=True):
        assert "text" not in row
        (expected,) = nlp.get_pipe("ner").nbest([nlp.make_doc(text)], 3)
        for found, want in zip(row["alternatives"], expected, strict=True):
            assert found["probability"] == pytest.approx(want.probability, abs=1e-5)
            assert [(s["start"], s["end"], s["label"]) for s in found["spans"]] == [
                (span.start_char, span.end_char, span.label_) for span in want.annotation
            ]


def controlled(pipeline, folder, promise, threshold):
    nlp = spacy.load(pipeline / "model")
    ner = nlp.get_pipe("ner")
    ner.control = Control(promise, ner.labels, (threshold,) * len(ner.labels))
    nlp.to_disk(folder)
    return nlp


def test_dropped_predictions_of_a_precision_promise(pipeline, here):
    write_jsonl(here / "a.jsonl", TEXTS)
    run(pipeline / "model", "a.jsonl", "-o", "full", "-p", "ner")
    full = [row["spans"] for row in read_rows(here / "full")]
    values = sorted(span["probability"] for spans in full for span in spans)
    threshold = values[len(values) // 2]
    controlled(pipeline, here / "controlled", "precision", threshold)
    run("controlled", "a.jsonl", "-o", "out", "-p", "ner", "--dropped")
    rows = read_rows(here / "out")
    assert all(s["probability"] >= threshold for row in rows for s in row["spans"])
    assert any(row["dropped"] for row in rows)
    for row, spans in zip(rows, full, strict=True):
        together = [*row["spans"], *row["dropped"]]
        assert sorted(together, key=lambda span: span["start"]) == spans


def test_candidates_of_a_recall_promise(pipeline, here):
    nlp = controlled(pipeline, here / "controlled", "recall", 0.01)
    write_jsonl(here / "a.jsonl", TEXTS)
    run("controlled", "a.jsonl", "-o", "out", "-p", "ner")
    for row in read_rows(here / "out"):
        doc = nlp(row["text"])
        group = doc.spans["candidates"]
        scores = group.attrs["scores"].tolist()
        assert len(row["candidates"]) == len(group) > 0
        for found, span, score in zip(row["candidates"], group, scores, strict=True):
            assert (found["start"], found["end"]) == (span.start_char, span.end_char)
            assert found["probability"] == pytest.approx(score, abs=1e-5)


def test_failed_documents_are_listed(pipeline, here):
    lines = [
        '{"id": "a", "text": "Ann saw Rome ."}',
        "{",
        '{"id": "b", "title": "no text"}',
        r'{"id": "c", "text": "half \ud800"}',
        '{"id": "d", "text": "Bob saw Oslo ."}',
        '{"id": ["e"], "text": "Bob saw Oslo ."}',
        json.dumps({"id": "f", "text": "a " * 30}),
        r'{"id": "g", "text": "Ann", "note": "\udfff"}',
        '{"id": "h", "text": "Ann saw Oslo", "tokens": ["Ann", "was"]}',
        '{"id": "i", "text": "", "note": 1}',
    ]
    (here / "a.jsonl").write_text("\n".join(lines))
    (here / "b.txt.gz").write_bytes(gzip.compress(b"Ann saw Rome .\n" * 3)[:-9])
    (here / "c.csv").write_text("text,year\nAnn saw Rome .\nBob saw Oslo .,1990\n")
    options = ("-o", "out", "--shard", 4, "--max-length", 50)
    result = run(pipeline / "model", "a.jsonl", "b.txt.gz", "c.csv", *options, exit_code=4)
    errors = read_lines(here / "out" / "errors.jsonl")
    reasons = {error["id"]: error["reason"] for error in errors}
    assert reasons["a.jsonl:2"].startswith("no JSON")
    assert reasons["b"] == 'no "text" and no "tokens"; expected "text" with a string'
    assert reasons["c"].startswith('"text" has half a surrogate pair at character 5; expected')
    assert reasons["a.jsonl:6"] == "\"id\" must be a string or an integer, got ['e']"
    assert "Text of length 60 exceeds maximum of 50" in reasons["f"]
    assert "surrogates not allowed" in reasons["g"]
    assert reasons["h"].startswith("[E194]")
    assert reasons["i"] == '"text" is empty'
    unread = "rest of b.txt.gz from line 4 unread: b.txt.gz: broken or truncated .gz file"
    assert reasons["b.txt.gz"].startswith(unread)
    assert reasons["c.csv:2"] == "1 fields under a header of 2"
    assert errors[4]["place"] == "a.jsonl:7"
    rows = read_rows(here / "out")
    assert (
        f"{len(rows) + 10} documents read, {len(rows)} written to out, 10 failed, the rest of 1 "
        in (result.output)
    )
    assert [row["id"] for row in rows][:2] == ["a", "d"] and rows[-1]["id"] == "c.csv:3"
    # The finished run says the same again.
    same = run(pipeline / "model", "a.jsonl", "b.txt.gz", "c.csv", *options, exit_code=4)
    assert same.stdout == f"finished already: {result.stdout}"
    assert read_lines(here / "out" / "errors.jsonl") == errors


def test_a_failing_component_fails_only_its_documents(pipeline, here, monkeypatch):
    write_jsonl(here / "a.jsonl", TEXTS)
    codec = type(spacy.load(pipeline / "model").get_pipe("ner").codec)
    write = codec.write

    def fail(self, docs, *args):
        if any("earth" in doc.text for doc in docs):
            raise RuntimeError("no earth")
        return write(self, docs, *args)

    monkeypatch.setattr(codec, "write", fail)
    run(pipeline / "model", "a.jsonl", "-o", "out", exit_code=3)
    assert [row["id"] for row in read_rows(here / "out")] == [0, 2, 3]
    (error,) = read_lines(here / "out" / "errors.jsonl")
    assert error == {"id": 1, "place": "a.jsonl:2", "reason": "no earth"}


def test_a_full_disk_stops_and_the_next_run_goes_on(pipeline, here, monkeypatch):
    write_jsonl(here / "a.jsonl", TEXTS * 5)
    options = (pipeline / "model", "a.jsonl", "-o", "out", "--shard", 4)
    run(*options[:3], "whole", *options[4:])
    replace = Path.replace

    def fail(self, target):
        if target.name == "000002.jsonl":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        result = run(*options, exit_code=1)
    assert "000002.jsonl: cannot be written: No space left on device" in result.output
    shards = here / "out" / "shards"
    assert sorted(path.name for path in shards.iterdir()) == ["000000.jsonl", "000001.jsonl"]
    first = (shards / "000000.jsonl").stat()
    run(*options)
    last = (shards / "000000.jsonl").stat()
    assert (last.st_ino, last.st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    check_once(here / "out", list(range(20)))
    for path in (here / "whole" / "shards").iterdir():
        assert (shards / path.name).read_bytes() == path.read_bytes()


def test_half_a_line_of_progress_is_removed(pipeline, here):
    write_jsonl(here / "a.jsonl", TEXTS)
    options = (pipeline / "model", "a.jsonl", "-o", "out", "--shard", 1)
    run(*options)
    log = here / "out" / "progress.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2]) + lines[2][:10])
    run(*options)
    check_once(here / "out", [0, 1, 2, 3])


def test_a_different_run_is_refused(pipeline, here):
    write_jsonl(here / "a.jsonl", TEXTS)
    options = ["a.jsonl", "-o", "out", "-p", "ner"]
    run(pipeline / "model", *options)

    def read_output():
        return {path: path.read_bytes() for path in (here / "out").rglob("*.json*")}

    before = read_output()
    controlled(pipeline, here / "other", "recall", 0.5)
    nlp = spacy.load(pipeline / "model")
    nlp.get_pipe("ner").temperature = 2
    nlp.to_disk(here / "model")

    def refused(*arguments):
        return run(*arguments, exit_code=1).output

    assert "out: was started differently: model name was" in refused("other", *options)
    assert "options shard was 1000, is 7" in refused(pipeline / "model", *options, "--shard", 7)
    assert 'options pipes was ["ner"], is []' in refused(pipeline / "model", *options[:3])
    write_jsonl(here / "b.jsonl", TEXTS)
    assert "inputs b.jsonl is new" in refused(pipeline / "model", "b.jsonl", *options)
    write_jsonl(here / "a.jsonl", TEXTS[:3])
    assert "inputs a.jsonl size was " in refused(pipeline / "model", *options)
    assert before == read_output()


def make_hundred(bad, end=b"\n", head=b"", line=b"Ann saw Rome ."):
    """A file of 100 lines, of which the third is bad."""
    return head + b"".join((bad if i == 2 else line) + end for i in range(100))


def test_nothing_to_read_is_said(pipeline, here):
    (here / "none.jsonl").touch()
    result = run(pipeline / "model", "none.jsonl", "-o", "out")
    assert "Note: the inputs have no document, nothing was read\n" in result.stderr
    assert result.step is None


JSON_LINE = b'{"text": "Ann saw Rome ."}'
READABLE = {
    "a.jsonl": (make_hundred(b'{"text": "\xe9"}', line=JSON_LINE), "byte 0xe9 at column 11 is not"),
    "b.jsonl": (
        make_hundred(JSON_LINE[:-1] + b" " * (1 << 24), line=JSON_LINE),
        "more than 16,777",
    ),
    "c.txt": (make_hundred(b"caf\xe9"), "byte 0xe9 at column 4 is not UTF-8"),
    "d.txt": (make_hundred(b"x" * (1 << 24) + b"y"), "the line is longer than 16 MiB"),
    "e.csv": (make_hundred(b'"Ann" saw', head=b"text\n"), "no CSV: ',' expected after"),
    "f.csv": (make_hundred(b'"Ann saw', head=b"text\n"), "no CSV: unexpected end of data"),
    "g.csv": (make_hundred(b"caf\xe9", head=b"text\n"), "no CSV: byte 0xe9 at column 4"),
    "h.tsv": (make_hundred(b"a\tb", head=b"text\n"), "2 fields under a header of 1"),
    "i.csv": (make_hundred(b"a\rb", head=b"text\n"), "no CSV: new-line character seen"),
    "j.json": (
        b"[" + make_hundred(b'{"text": "\xe9"}', b",\n", line=JSON_LINE)[:-2] + b"]",
        '"text" has half a surrogate pair',
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_reading_goes_on_after_a_bad_line(pipeline, here, name):
    content, reason = READABLE[name]
    (here / name).write_bytes(content)
    run(pipeline / "model", name, "-o", "out", "-p", "tagger", exit_code=3)
    (error,) = read_lines(here / "out" / "errors.jsonl")
    assert error["place"] == f"{name}:{4 if name[-3:] in ('csv', 'tsv') else 3}"
    assert error["reason"].startswith(reason)
    assert len(read_rows(here / "out")) == 99


def test_the_rest_of_a_file_that_cannot_be_read_is_counted(pipeline, here):
    (here / "a.json").write_bytes(b"[" + JSON_LINE + b",\n" + JSON_LINE + b",\n{]")
    packed = gzip.compress(JSON_LINE + b"\n" + os.urandom(9999))
    (here / "b.jsonl.gz").write_bytes(packed[:-5000])
    (here / "c.jsonl").write_bytes(JSON_LINE)
    inputs = ("a.json", "b.jsonl.gz", "c.jsonl")
    result = run(pipeline / "model", *inputs, "-o", "out", exit_code=4)
    assert "the rest of 2 files unread" in result.output
    errors = {error["id"]: error for error in read_lines(here / "out" / "errors.jsonl")}
    assert errors["a.json"]["reason"].startswith("rest of a.json from line 3 unread: a.json:3: no")
    assert errors["a.json"]["unread"] is errors["b.jsonl.gz"]["unread"] is True
    # The line before the broken part is not lost.
    assert [row["id"] for row in read_rows(here / "out")][:3] == [
        "a.json:1",
        "a.json:2",
        inputs[1] + ":1",
    ]
    last = json.loads(
        run(pipeline / "model", *inputs, "-o", "out", "--log-json", exit_code=4).stdout
    )
    assert last["read"] == last["written"] + last["failed"] and last["unread"] == 2


def test_user_data_that_is_no_meta_data_fails_its_document_alone(pipeline, here):
    nlp = spacy.blank("xx")
    docs = [nlp.make_doc(f"Ann saw {i} .") for i in range(8)]
    docs[0].user_data["meta"] = "{"
    docs[1].user_data["meta"] = "[]"
    docs[2].user_data["meta"] = json.dumps({"x": [[]] * 2_200_000})
    docs[3].user_data["id"] = b"bytes"
    docs[4].user_data["id"] = "x" * 2000
    docs[5].user_data["id"] = 1.5
    docs[6].user_data["meta"] = 7
    DocBin(docs=docs, store_user_data=True).to_disk(here / "a.spacy")
    for _ in range(2):
        run(pipeline / "model", "a.spacy", "-o", "out", "-p", "tagger", exit_code=3)
    errors = read_lines(here / "out" / "errors.jsonl")
    assert [error["place"] for error in errors] == [f"a.spacy:{i}" for i in range(1, 8)]
    assert "meta data of more than 33,554,432 characters" in errors[2]["reason"]
    assert errors[3]["reason"] == "user_data: \"id\" must be a string or an integer, got b'bytes'"
    assert [row["id"] for row in read_rows(here / "out")] == ["a.spacy:8"]


def test_a_table_with_bare_carriage_returns_has_no_parquet(pipeline, here):
    pytest.importorskip("pyarrow")
    (here / "a.csv").write_bytes(b"text\ra\rb\r")
    run(pipeline / "model", "a.csv", "-o", "out", "-f", "parquet", exit_code=4)
    (error,) = read_lines(here / "out" / "errors.jsonl")
    start = "rest of a.csv from line 1 unread: a.csv:1: no CSV: new-line character seen in"
    assert error["reason"].startswith(start)


def test_records_of_one_shard_are_bounded_by_all_their_characters():
    from spacy_bcrf.bulk.shards import MAX_CHARACTERS, split_shards
    from spacy_bcrf.corpora.texts import TextRecord, check_meta

    size = MAX_CHARACTERS // 4
    for meta in ({"x": "y" * size}, {"x": ["y" * (size // 2)] * 2}, {"x": [[]] * (size // 16)}):
        items = [TextRecord(i, str(i), "Ann", None, None, *check_meta(meta)) for i in range(9)]
        assert [len(shard.items) for shard in split_shards(items, 1000, int)] == [4, 4, 1]


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "garbage": lambda path: path.write_bytes(path.read_bytes()[::-1]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_is_named_and_redone(pipeline, here, damage):
    write_jsonl(here / "a.jsonl", [*TEXTS, *TEXTS])
    with (here / "a.jsonl").open("a") as file:
        file.write('{"id": 9}\n')
    options = (pipeline / "model", "a.jsonl", "-o", "out", "--shard", 2)
    run(*options, exit_code=3)
    before = {path: path.read_bytes() for path in (here / "out").rglob("0*")}
    errors = (here / "out" / "errors.jsonl").read_bytes()
    DAMAGE[damage](here / "out" / "shards" / "000001.jsonl")
    result = run(*options, exit_code=1)
    assert re.search(r"000001.jsonl: is (missing|damaged); redo", result.output)
    others = [path.stat().st_mtime_ns for path in before if "000001" not in path.name]
    run(*options, "--redo", exit_code=3)
    assert before == {path: path.read_bytes() for path in (here / "out").rglob("0*")}
    assert others == [path.stat().st_mtime_ns for path in before if "000001" not in path.name]
    assert errors == (here / "out" / "errors.jsonl").read_bytes()
    check_once(here / "out", list(range(8)))


DAMAGED_LINES = [
    b'"complete"',
    b'["complete"]',
    b"null",
    b"7",
    b"{}",
    b"[" * 100_000,
    b'{"number": "1", "n_read": 2, "n_written": 2, "n_words": 8, "failures": []}',
    b'{"number": 1, "n_read": null, "n_written": 2, "n_words": 8, "failures": []}',
    b"\xff\x00",
    b"",
]


@pytest.mark.parametrize("line", DAMAGED_LINES, ids=range(len(DAMAGED_LINES)))
def test_a_damaged_line_of_progress_is_named_and_redone(pipeline, here, line):
    write_jsonl(here / "a.jsonl", [*TEXTS, *TEXTS])
    options = (pipeline / "model", "a.jsonl", "-o", "out", "--shard", 2)
    run(*options)
    log = here / "out" / "progress.jsonl"
    lines = log.read_bytes().splitlines()
    log.write_bytes(b"\n".join([lines[0], line, *lines[2:], b""]))
    result = run(*options, exit_code=1)
    assert "progress.jsonl:2: damaged; redo annotates" in result.output
    run(*options, "--redo")
    check_once(here / "out", list(range(8)))
    # A line that somebody removes leaves a shard to do.
    log.write_bytes(b"\n".join([*lines[:2], *lines[3:], b""]))
    (here / "out" / "shards" / "000002.jsonl").unlink()
    done = "8 documents read, 8 written to out, 0 failed"
    assert run(*options).stdout == f"{done}\n"
    assert run(*options).stdout == f"finished already: {done}\n"
    assert [row["id"] for row in read_rows(here / "out")] == list(range(8))


@pytest.mark.parametrize("change", range(40))
def test_no_changed_byte_of_progress_is_taken_over(pipeline, here, change):
    log = here / "progress.jsonl"
    manifest = Manifest(here)
    manifest.add(Finished(0, 2, 1, 8, [Rejected("b", "a.txt:2", "no text")], 99, "0a"))
    manifest.add(Finished(1, 2, 2, 8, [], 98, "0b"))
    data = bytearray(log.read_bytes())
    rng = random.Random(change)
    data[rng.randrange(len(data) - 1)] ^= 1 << rng.randrange(8)
    log.write_bytes(data)
    found = list(Manifest(here).read_log())
    assert [
        one
        for one in found
        if one
        not in (
            Finished(0, 2, 1, 8, [Rejected("b", "a.txt:2", "no text")], 99, "0a"),
            Finished(1, 2, 2, 8, [], 98, "0b"),
        )
    ] == [] and len(found) < 2


def test_a_manifest_of_nested_lists_is_refused(pipeline, here):
    write_jsonl(here / "a.jsonl", TEXTS)
    (here / "out").mkdir()
    (here / "out" / "manifest.json").write_text("[" * 100_000)
    result = run(pipeline / "model", "a.jsonl", "-o", "out", exit_code=1)
    assert "manifest.json: is not the file of an earlier run" in result.output


def test_an_input_that_changed_is_refused(pipeline, here):
    text = "Ann saw Rome .\n" * 100_000
    (here / "a.txt").write_text(text)
    before = describe_inputs([Path("a.txt")])
    changed_at = (here / "a.txt").stat().st_mtime_ns
    changed = text[:700_000] + "x" * 200_000 + text[900_000:]
    (here / "a.txt").write_text(changed)
    os.utime("a.txt", ns=(changed_at, changed_at))
    assert before != describe_inputs([Path("a.txt")])
    (here / "a.txt").write_text(text)
    os.utime("a.txt", ns=(changed_at, changed_at + 10**9))
    assert before != describe_inputs([Path("a.txt")])
    os.utime("a.txt", ns=(changed_at, changed_at))
    assert before == describe_inputs([Path("a.txt")])


def test_an_input_that_changes_during_the_run_is_refused(pipeline, here, monkeypatch):
    write_jsonl(here / "a.jsonl", TEXTS)
    add = Manifest.add

    def change(self, shard):
        add(self, shard)
        (here / "a.jsonl").write_text("{}")

    monkeypatch.setattr(Manifest, "add", change)
    result = run(pipeline / "model", "a.jsonl", "-o", "out", exit_code=1)
    assert "out: an input changed while the run read it" in result.output


@pytest.mark.parametrize("name", [".lock", "errors.jsonl", "progress.jsonl", "manifest.json"])
@pytest.mark.parametrize("used", [False, True])
def test_links_in_the_output_are_not_followed(pipeline, here, name, used):
    (here / "a.jsonl").write_text('{"text": "Ann"}\n{}\n')
    (here / "precious").write_text("mine")
    (here / "out").mkdir()
    if used:
        run(pipeline / "model", "a.jsonl", "-o", "out", exit_code=3)
        (here / "out" / name).unlink()
    (here / "out" / name).symlink_to(here / "precious")
    result = run(pipeline / "model", "a.jsonl", "-o", "out", exit_code=1)
    assert f"{name}" in result.output and (here / "precious").read_text() == "mine"


def test_a_link_in_place_of_a_shard_is_replaced_not_its_target(pipeline, here):
    write_jsonl(here / "a.jsonl", TEXTS)
    (here / "precious").write_text("mine")
    run(pipeline / "model", "a.jsonl", "-o", "out", "--shard", 2)
    shard = here / "out" / "shards" / "000001.jsonl"
    shard.unlink()
    shard.symlink_to(here / "precious")
    run(pipeline / "model", "a.jsonl", "-o", "out", "--shard", 2, "--redo")
    assert (here / "precious").read_text() == "mine" and not shard.is_symlink()
    check_once(here / "out", [0, 1, 2, 3])


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_an_endless_device_is_no_input(pipeline, here):
    (here / "z.txt").symlink_to("/dev/zero")
    result = run(pipeline / "model", "z.txt", "-o", "out", exit_code=1)
    assert "z.txt: is a device or a pipe; expected a regular file" in result.output
    with pytest.raises(BulkError, match=r"z.txt: expected a regular file"):
        describe_inputs([here / "z.txt"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nope.jsonl"], "nope.jsonl: there is no such file or folder, and no file matches"),
        (["a.rtf"], "a.rtf: unknown extension '.rtf'; expected one of .txt, .jsonl"),
        (["a.jsonl", "./a.jsonl"], "a.jsonl: is given twice"),
        (["empty"], "empty: the folder has no file with one of .txt"),
        (["a.jsonl", "-p", "x"], "no component 'x' of spacy-bcrf; expected pipe to be"),
        (
            ["a.jsonl", "a.csv"],
            "a.csv: no column 'text' among id, body; expected one, or another --text-column",
        ),
        (["a.jsonl", "-o", "taken"], "taken: has mine.txt, but no manifest.json"),
        (["a.jsonl", "-o", "a.csv"], "a.csv: is a file; expected a new or empty folder"),
        (["taken", "-o", "taken"], "taken: is in the folder of the output"),
        (["taken/mine.txt", "-o", "taken"], "taken/mine.txt: is in the folder of the output"),
        (["a.jsonl", "--id-column", "text"], "--text-column and --id-column are both 'text'"),
    ],
)
def test_wrong_input(pipeline, here, arguments, message):
    for folder in ("empty", "taken"):
        (here / folder).mkdir()
    for name in ("a.rtf", "taken/mine.txt"):
        (here / name).touch()
    write_jsonl(here / "a.jsonl", TEXTS)
    (here / "a.csv").write_text("id,body\n1,x\n")
    result = run(pipeline / "model", "-o", "out", *arguments, exit_code=1)
    assert message in result.output
    assert not (here / "out").exists()


@pytest.mark.parametrize("inputs", ["in", "in/**/*.jsonl"])
def test_the_output_in_the_folder_of_the_input_is_no_input(pipeline, here, inputs):
    (here / "in").mkdir()
    write_jsonl(here / "in" / "a.jsonl", TEXTS)
    for _ in range(2):
        result = run(pipeline / "model", inputs, "-o", "in/out", "-p", "ner")
        assert "4 documents read, 4 written to in/out, 0 failed" in result.output


@pytest.mark.parametrize("format", ["jsonl", "parquet", "spacy"])
def test_records_that_cannot_be_written_are_failures(pipeline, here, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    depths = (100, 101, 600, 3000)
    lines = [json.dumps({"id": 0, "text": TEXTS[0], "\ud800": 1}), json.dumps({"text": TEXTS[0]})]
    lines += [f'{{"id": {n}, "text": "Ann", "x": {"[" * n}{"]" * n}}}' for n in depths]
    (here / "a.jsonl").write_text("\n".join(lines))
    run(pipeline / "model", "a.jsonl", "-o", "out", "-f", format, "-p", "ner", exit_code=3)
    errors = {error["id"] for error in read_lines(here / "out" / "errors.jsonl")}
    shard, end = read_lines(here / "out" / "progress.jsonl")
    assert shard["n_read"] == len(lines) == shard["n_written"] + len(shard["failures"])
    assert end == {"complete": 1, "crc": end["crc"]}
    # Parsers of some versions of Python refuse the deepest value, and do not know its id.
    assert errors in ({0, 101, 600, 3000}, {0, 101, 600, "a.jsonl:6"})


def test_two_runs_cannot_share_a_folder(pipeline, here):
    fcntl = pytest.importorskip("fcntl")
    write_jsonl(here / "a.jsonl", TEXTS)
    run(pipeline / "model", "a.jsonl", "-o", "out")
    with (here / "out" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = run(pipeline / "model", "a.jsonl", "-o", "out", exit_code=1)
    assert "out: another process is writing to this folder" in result.output


def test_a_long_document_is_not_cut(pipeline, nlp, here):
    text = " ".join(TEXTS[:3] * 2000)
    write_jsonl(here / "a.jsonl", [text])
    run(pipeline / "model", "a.jsonl", "-o", "out", "-p", "ner")
    (row,) = read_rows(here / "out")
    bounds = [(span["start"], span["end"], span["label"]) for span in row["spans"]]
    assert bounds == [(e.start_char, e.end_char, e.label_) for e in nlp(text).ents]


def test_json_log(pipeline, here):
    write_jsonl(here / "a.jsonl", TEXTS)
    result = run(pipeline / "model", "a.jsonl", "-o", "out", "--shard", 2, "--log-json")
    first, last = map(json.loads, result.stdout.splitlines())
    assert first["event"] == "progress" and first["read"] == 2
    assert last["event"] == "finished" and last["read"] == last["written"] == 4
    assert last["words"] == sum(len(spacy.blank("xx")(text)) for text in TEXTS)
    assert last["seconds_left"] == 0 and last["words_per_second"] > 0


def test_strings_of_the_input_stay_only_during_the_warm_up(pipeline, here, monkeypatch):
    """They fill the tokenizer's cache, which memory zones do not."""
    monkeypatch.setattr("spacy_bcrf.bulk.worker.WARM_UP", 0)
    from spacy_bcrf.bulk.shards import Shard
    from spacy_bcrf.bulk.worker import RunSettings, Worker
    from spacy_bcrf.corpora.texts import TextRecord

    worker = Worker(RunSettings(str(pipeline / "model"), ("ner",), "jsonl", here))
    vocab = worker.nlp.vocab
    sizes = []
    for number in range(3):
        texts = [f"Ann{number}x{i} saw Rome{i} ." for i in range(50)]
        items = [TextRecord(i, str(i), text) for i, text in enumerate(texts)]
        assert worker.annotate(Shard(number, items, 0)).n_written == 50
        sizes.append((len(vocab.strings), sum(1 for _ in vocab)))
    assert sizes[0] == sizes[1] == sizes[2] and "Ann0x1" in vocab.strings
    assert "Ann1x1" not in vocab.strings


def test_docs_keep_no_annotation_of_the_input(pipeline, nlp, here):
    doc = nlp.make_doc("Why on earth not ?")
    doc.set_ents([spacy.tokens.Span(doc, 2, 3, label="LOC")])
    DocBin(docs=[doc]).to_disk(here / "a.spacy")
    run(pipeline / "model", "a.spacy", "-o", "out", "-p", "ner")
    (row,) = read_rows(here / "out")
    assert len(row["spans"]) == len(nlp("Why on earth not ?").ents)


@pytest.mark.parametrize("text", ["(" * 30_000, '"' * 30_000, "\U0001f600" * 30_000])
def test_a_document_that_takes_too_long_fails_alone(pipeline, here, text):
    write_jsonl(here / "a.jsonl", [*TEXTS, text, *TEXTS])
    start = time.monotonic()
    run(pipeline / "model", "a.jsonl", "-o", "out", "--timeout", 2, exit_code=3)
    assert time.monotonic() - start < 20
    (error,) = read_lines(here / "out" / "errors.jsonl")
    assert error == {"id": 4, "place": "a.jsonl:5", "reason": "took longer than 2 s"}
    assert [row["id"] for row in read_rows(here / "out")] == [0, 1, 2, 3, 5, 6, 7, 8]


def test_memory_that_is_short_makes_smaller_batches(pipeline, here, monkeypatch):
    write_jsonl(here / "a.jsonl", TEXTS * 4)
    options = (pipeline / "model", "a.jsonl", "-p", "ner")
    run(*options, "-o", "whole")
    predict = Predictor.predict

    def fail(self, docs):
        if len(docs) > 3:
            raise MemoryError
        return predict(self, docs)

    monkeypatch.setattr(Predictor, "predict", fail)
    with pytest.warns(UserWarning, match=r"memory is short for a batch of 16 documents. Batches"):
        run(*options, "-o", "out")
    for row, expected in zip(read_rows(here / "out"), read_rows(here / "whole"), strict=True):
        assert row.pop("spans") == [pytest.approx(s, abs=2e-6) for s in expected.pop("spans")]
        assert row == expected


def test_memory_that_is_too_small_ends_the_run_with_advice(pipeline, here, monkeypatch):
    write_jsonl(here / "a.jsonl", TEXTS)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("spacy_bcrf.corpora.formats.jsonl.JsonWriter.__init__", fail)
    result = run(pipeline / "model", "a.jsonl", "-o", "out", exit_code=1)
    assert "000000.jsonl: the memory is too small; use smaller shards" in result.output


def test_the_time_left_is_unknown_before_the_first_position(capsys):
    progress = Progress("out", as_json=True)
    progress.start(100_000_000)
    progress.update(RunCounts(48, 48, 0, 100), 0)
    assert json.loads(capsys.readouterr().out)["seconds_left"] is None
    progress.finish(RunCounts(48, 48, 0, 100))
    assert json.loads(capsys.readouterr().out)["seconds_left"] == 0
