"""`redact` of files that keep their format, in runs that resume."""

import gzip
import json
import os
import random
import signal
import time

import pytest
import spacy
from commands import command
from forked_commands import start_module
from sentences import make_docs

from spacy_bcrf.bulk.worker import BulkError, Worker
from spacy_bcrf.corpora.texts import TextColumns
from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.privacy.redact_files import redact_files
from spacy_bcrf.privacy.vault import Vault

redact, restore = command("redact"), command("restore")
OPTIONS = ("--threshold", "0.5")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    vocab = spacy.blank("xx").vocab
    train_sparse_chain(make_docs(vocab) * 8, ["PERSON", "LOC"]).to_disk(folder / "sparse")
    return folder / "sparse"


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_a_folder_keeps_names_and_formats(model, here):
    (here / "in/sub").mkdir(parents=True)
    (here / "in/a.json").write_text('{"x": ["Ann saw Rome .", 3], "Ann": null}')
    (here / "in/b.jsonl").write_bytes(b'{"x": "Ann saw Rome ."}\r\n\n["Bob saw Kiel ."]\n')
    (here / "in/sub/c.csv").write_text('t,n\n"Ann saw Rome .",1\n\nBob saw Kiel .,2\n')
    (here / "in/d.html").write_text("<p>Ann saw <b>Rome</b> .</p>\n")
    (here / "in/e.md").write_text("# Ann saw Rome .\n")
    (here / "in/f.log").write_text("Ann saw Rome .\nBob saw Kiel .\n")
    (here / "in/sub/g.txt.gz").write_bytes(gzip.compress(b"Ann saw Rome .\n\nBob saw Kiel ."))
    (here / "in/empty.txt").write_text("")
    (here / "in/empty.csv").write_text("")
    (here / "in/x.bin").write_text("Ann")
    result = redact(model, "in", "-o", "in/out", *OPTIONS)
    assert "skipped 1 file with other extensions" in result.stderr
    found = {str(p.relative_to(here / "in/out")): p for p in (here / "in/out").rglob("*.*")}
    texts = {name: path.read_bytes().decode() for name, path in found.items()}
    assert texts == {
        "a.json": '{"x": ["[PERSON] saw [LOC] .", 3], "Ann": null}',
        "b.jsonl": '{"x": "[PERSON] saw [LOC] ."}\r\n\n["[PERSON] saw [LOC] ."]\n',
        "sub/c.csv": 't,n\n"[PERSON] saw [LOC] .",1\n\n[PERSON] saw [LOC] .,2\n',
        "d.html": "<p>[PERSON] saw <b>[LOC]</b> .</p>\n",
        "e.md": "# \\[PERSON\\] saw \\[LOC\\] .\n",
        "f.log": "[PERSON] saw [LOC] .\n[PERSON] saw [LOC] .\n",
        "sub/g.txt": "[PERSON] saw [LOC] .\n\n[PERSON] saw [LOC] .",
        "empty.txt": "",
        "empty.csv": "",
    }
    # Once more, with the old output in the folder of the input.
    redact(model, "in", "-o", "in/out", *OPTIONS, "--n-process", "2")
    assert {name: path.read_bytes().decode() for name, path in found.items()} == texts


RECORDS = {
    ".jsonl": ['{"x": "it \\u00e9 ."}', "[1, \t2.50]", '"so"', " {} "],
    ".json": ['[1,\n"a" , {"b": null}]'],
    ".csv": ["a,b", '"so, ""it""\n",', "x,y", '" ",1'],
    ".tsv": ["a\tb", '"so\t"\tx', "it\tb|c"],
    ".log": ["10:33 so it {", '[x] {"a": "b"}', " \t", "it \u2028 so"],
    ".txt": ["it so", " .", "\u3000", "é"],
    ".html": ["<p title=x>it &amp; <b>so</b>", "<!-- x -->", "&nbsp;"],
    ".md": ["# it *so*", "| a | b |", "|---|---|", "    x", "\\_ `x`"],
}


@pytest.mark.parametrize("is_lines", [False, True])
def test_a_file_without_private_data_is_the_same(model, here, is_lines):
    """Line ends, byte order marks and blank lines stay."""
    rng = random.Random(is_lines)
    (here / "in").mkdir()
    for i in range(240):
        kind = [*RECORDS][i % len(RECORDS)]
        end, n = rng.choice(["\n", "\r\n"]), 1 if kind == ".json" else rng.randrange(5)
        lines = rng.choices(RECORDS[kind], k=n)
        if kind == ".csv":
            lines = ["a,b", *lines]
        if kind in (".csv", ".tsv") and rng.random() < 0.5:
            sign = rng.choice(";|\t") if kind == ".csv" else "\t"
            lines = [line.replace(",", sign) for line in lines]
        blank = [""] if kind != ".jsonl" else ["", " ", "\t"]
        parts = [rng.choice(["", "\ufeff"])]
        for line in lines:
            parts += [f"{rng.choice(blank)}{end}"] * rng.choice([0, 0, 1, 3]) + [line, end]
        parts += [end] * rng.choice([0, 0, 2])
        text = "".join(parts)
        text = text[: -len(end)] if rng.random() < 0.3 and lines else text
        (here / f"in/{i}{kind}").write_bytes(text.encode())
    columns = TextColumns(whole_files=not is_lines)
    found = redact_files(str(model), ["in"], here / "out", threshold=1.0, columns=columns)
    assert not found.counts["spans"] and not found.failures
    for path in (here / "in").iterdir():
        assert (here / "out" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize("sign", [";", "|", "\t"])
def test_tables_with_other_delimiters(model, here, sign):
    text = 'x,y;n;"a, b"\n\nAnn saw Rome .;1;"Bob ; 1,5"\n'.replace(";", sign)
    (here / "a.csv").write_text(text)
    redact(model, "a.csv", "-o", "b.csv", *OPTIONS, "--fields", "x,y")
    assert (here / "b.csv").read_text() == text.replace("Ann saw Rome", "[PERSON] saw [LOC]")
    redact(model, "a.csv", "-o", "c.jsonl", *OPTIONS, "--text-column", "x,y")
    assert read(here / "c.jsonl")[0]["text"] == "[PERSON] saw [LOC] ."


def test_parquet_in_parquet_out(model, here):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = ["Ann saw Rome .", "", None, "Bob saw Kiel ."] * 700
    tags = pa.array([["Ann", "so"]] * len(texts), pa.list_(pa.dictionary(pa.int32(), pa.string())))
    times = pa.array([*range(len(texts))], pa.timestamp("ns"))
    table = pa.table({"n": times, "text": texts, "tags": tags})
    (here / "in").mkdir()
    parquet.write_table(table, here / "in/a.parquet")
    parquet.write_table(table.slice(0, 0), here / "in/b.parquet")
    redact(model, "in", "-o", "out", *OPTIONS, "--style", "numbered", "--vault", "v.json")
    new = parquet.read_table(here / "out/a.parquet")
    assert new.schema == parquet.read_table(here / "in/a.parquet").schema
    assert new["n"] == table["n"]
    assert new["text"].to_pylist()[:3] == ["[PERSON_1] saw [LOC_1] .", "", None]
    assert new["tags"].to_pylist()[0] == ["[PERSON_1]", "so"]
    assert parquet.read_table(here / "out/b.parquet").num_rows == 0
    restore("v.json", "out", "-o", "back")
    restore("v.json", "out/a.parquet", "-o", "back.parquet")
    for back in (here / "back/a.parquet", here / "back.parquet"):
        assert parquet.read_table(back).to_pylist() == table.to_pylist()
    redact(model, "in/a.parquet", "-o", "c.parquet", *OPTIONS, "--fields", "text")
    assert parquet.read_table(here / "c.parquet")["tags"].to_pylist()[0] == ["Ann", "so"]


def test_one_file_keeps_its_format_and_fields_are_chosen(model, here):
    (here / "a.jsonl").write_text('{"id": 1, "u": {"n": "Ann", "m": "Ann"}, "text": "Ann saw ."}\n')
    redact(model, "a.jsonl", "-o", "b.jsonl", *OPTIONS, "--fields", "u.n", "--fields", "text")
    assert read(here / "b.jsonl") == [
        {"id": 1, "u": {"n": "[PERSON]", "m": "Ann"}, "text": "[PERSON] saw ."}
    ]
    redact(model, "a.jsonl", "-o", "c.jsonl", *OPTIONS)
    assert read(here / "c.jsonl")[0]["text"] == "[PERSON] saw ."
    assert set(read(here / "c.jsonl")[0]) == {"id", "text", "spans"}
    (here / "a.csv").write_text("a,b\nAnn,Ann\n")
    redact(model, "a.csv", "-o", "b.csv", *OPTIONS, "--fields", "b")
    assert (here / "b.csv").read_text() == "a,b\nAnn,[PERSON]\n"


def test_the_header_of_a_table_counts_once(model, here):
    (here / "a.csv").write_text("a,a long header\nAnn,so\nBob,so\n")
    counts = redact_files(str(model), ["a.csv"], here / "b.csv", threshold=0.5).counts
    new = (here / "b.csv").read_text()
    assert new == "a,a long header\n[PERSON],so\n[PERSON],so\n"
    assert counts["texts"] == 2 and counts["characters"] == len(new)
    assert counts["written"] == 2 * len("[PERSON]")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("bad.json", "-o", "out.json"), "bad.json: no text left, 1 text failed: no JSON"),
        (("a.csv", "-o", "out.html"), "expected .jsonl, a folder, or the suffix of the only"),
        (("a.csv", "-o", "out.csv", "--fields", "nme"), "nme: no such field; expected names"),
        (("a.json", "-o", "out.json", "--fields", "x.z"), "x.z: no such field"),
        (("a.bin", "-o", "out"), "a.bin: unknown extension '.bin'; expected one of .txt, .json"),
        (("in", "a.json", "-o", "out"), "a.json: would be out/a.json, as in/a.json; expected"),
        (
            ("a.csv", "-o", "out", "--style", "numbered", "--vault", "v", "--n-process", "2"),
            "a vault needs one process",
        ),
        (("a.csv", "-o", "out.jsonl", "--text-column", "nme"), "a.csv: no column 'nme' among a, b"),
    ],
)
def test_wrong_input_writes_nothing(model, here, args, message):
    (here / "in").mkdir()
    (here / "in/a.json").write_text("{}")
    (here / "a.json").write_text('{"x": {"y": 1}}')
    (here / "bad.json").write_text('{"x": Ann')
    (here / "a.csv").write_text("a,b\nAnn,Ann\n")
    (here / "a.bin").write_text("Ann")
    before = sorted(path.name for path in here.rglob("*"))
    result = redact(model, *args, *OPTIONS, exit_code=1)
    assert message in result.output and "Ann" not in result.stderr
    assert sorted(path.name for path in here.rglob("*")) == before


def test_an_error_before_a_part_is_finished_leaves_nothing(model, here, monkeypatch):
    def fail(*_):
        raise BulkError("out: the disk is full")

    (here / "a.csv").write_text("a,b\nAnn,Ann\n")
    monkeypatch.setattr(Worker, "annotate", fail)
    for output, more in (("out", ()), ("b.csv", ("--style", "surrogate"))):
        result = redact(model, "a.csv", "-o", output, *more, *OPTIONS, exit_code=1)
        assert "the disk is full" in result.output
    assert [path.name for path in here.iterdir()] == ["a.csv"]


def test_bad_records_are_named_and_the_others_written(model, here):
    (here / "a.jsonl").write_text('{"x": "Ann saw Rome ."}\n{"x": Ann\n{"x": "Bob"}\n')
    (here / "b.json").write_text("{")
    result = redact(model, "a.jsonl", "b.json", "-o", "out", *OPTIONS, exit_code=3)
    assert [line["x"] for line in read(here / "out/a.jsonl")] == [
        "[PERSON] saw [LOC] .",
        "[PERSON]",
    ]
    assert "text a.jsonl:2: no JSON" in result.stderr and "2 texts failed, and not" in result.stderr
    assert [path.name for path in (here / "out").iterdir()] == ["a.jsonl"]


def test_texts_of_other_encodings_are_named_and_long_ones_are_redacted(model, here):
    """Once, spaCy's limit of 1,000,000 characters refused a text that JSON could have."""
    for name, encoding in (("a", "latin-1"), ("b", "utf-16"), ("c", "utf-16-le"), ("d", "utf8")):
        text = "Ann saw caf\xe9s in Rome .\n" * (43_000 if name == "d" else 1)
        text = text.replace("\xe9", "e") if name == "c" else text
        (here / f"{name}.txt").write_bytes(text.encode(encoding))
    texts = [f"{name}.txt" for name in "abcd"]
    result = redact(model, *texts, "-o", "out", *OPTIONS, exit_code=3)
    assert "a.txt: byte 12 is not UTF-8 (iconv -f ENCODING -t UTF-8 converts" in result.stderr
    assert "b.txt: byte 1 is not UTF-8 (iconv -f UTF-16 -t UTF-8 converts" in result.stderr
    assert (
        "c.txt: has NUL characters, as UTF-16 has" in result.stderr
        and "3 texts failed" in result.stderr
    )
    assert (here / "out/d.txt").read_text("utf8").count("[PERSON]") == 43_000


def test_a_first_row_with_names_and_files_that_are_there_are_noted(model, here):
    (here / "in").mkdir()
    (here / "in/a.csv").write_text("1,Ann,Rome\n2,Bob,Oslo\n")
    (here / "in/b.csv").write_text("id,who\n1,Ann\n")
    result = redact(model, "in", "-o", "out", *OPTIONS)
    assert "a.csv: the first row has the names of columns, and stays: 1, Ann, Rome" in result.stderr
    assert "b.csv" not in result.stderr and "replaced, such as" not in result.stderr
    result = redact(model, "in", "-o", "out", *OPTIONS)
    assert "2 files of out will be replaced, such as out/a.csv" in result.stderr
    result = redact(model, "in/b.csv", "-o", "out/b.csv", "--style", "numbered", *OPTIONS)
    assert "1 text with" in result.stdout and "without --vault, nobody" in result.stderr


def test_a_failure_is_of_its_own_file(model, here):
    (here / "in").mkdir()
    (here / "in/a.htm").write_text("")
    (here / "in/a.html").write_bytes(b"\xff")
    (here / "in/b.csv").write_text("1,Ann\n2,Bob\n")
    result = redact(model, "in", "-o", "out", *OPTIONS, exit_code=3)
    assert (here / "out/a.htm").read_text() == ""
    assert "b.csv: the first row has the names of columns, and stays: 1, Ann" in result.stderr


def test_a_key_encrypts_the_vault_of_files(model, here):
    pytest.importorskip("cryptography")
    (here / "a.txt").write_text("Ann saw Rome .")
    (here / "secret").write_text("0123456789abcdef")
    args = "--style", "numbered", "--vault", "v.json", "--key", "secret"
    redact(model, "a.txt", "-o", "new.txt", *OPTIONS, *args)
    vault = (here / "v.json").read_text()
    assert "Ann" not in vault and '"encrypted"' in vault
    restore("v.json", "new.txt", "-o", "back.txt", "--key", "secret")
    assert (here / "back.txt").read_text() == "Ann saw Rome ."


def test_formats_are_restored(model, here):
    (here / "a.json").write_text('{"x": "Ann saw \\"Rome\\" .", "n": 1}')
    (here / "a.html").write_text('<p title="Ann saw Rome .">Ann saw Rome . &amp;</p>')
    args = "--style", "numbered", "--vault", "v.json"
    for name in ("a.json", "a.html"):
        redact(model, name, "-o", f"new-{name}", *OPTIONS, *args)
        assert "Ann" not in (here / f"new-{name}").read_text()
        restore("v.json", f"new-{name}", "-o", f"back-{name}")
        assert (here / f"back-{name}").read_text() == (here / name).read_text()


def test_a_folder_is_restored_with_its_own_vault(model, here):
    """Another vault has the same placeholders: an error names it, and nothing is written."""
    (here / "in/sub").mkdir(parents=True)
    (here / "in/a.json").write_bytes(b'\xef\xbb\xbf{"x": "Ann saw \\"Rome\\" ."}\r\n')
    (here / "in/sub/b.csv").write_bytes(b"a;b\r\n\r\nBob saw Kiel .;1\r\n")
    (here / "in/empty.txt").write_text("")
    numbered = *OPTIONS, "--style", "numbered", "--vault"
    redact(model, "in", "-o", "out", *numbered, "v.json")
    (here / "out/x.bin").write_text("x")
    result = restore("v.json", "out", "-o", "back")
    assert "5 placeholders restored" in result.stderr
    assert "skipped 1 file with other extensions" in result.stderr
    for path in (here / "in").rglob("*.*"):
        assert (here / "back" / path.relative_to(here / "in")).read_bytes() == path.read_bytes()
    redact(model, "in/a.json", "-o", "a.jsonl", *numbered, "other.json", "--text-column", "x")
    ids = [Vault.load(here / name).id for name in ("v.json", "other.json")]
    for vault, source, output, names in [
        ("other.json", "out", "new", ids),
        ("other.json", "out/a.json", "new.json", ids),
        ("other.json", "out/sub", "new", ids),
        ("other.json", "out/sub/b.csv", "new.csv", ids),
        ("v.json", "a.jsonl", "new.jsonl", ids[::-1]),
    ]:
        result = restore(vault, source, "-o", output, exit_code=1)
        was, given = names
        assert f"was redacted with the vault {was}, not with vault {given} of" in result.stderr
        assert not (here / output).exists()
    result = redact(model, "in", "-o", "out", *numbered, "other.json", exit_code=1)
    assert f"out was redacted with the vault {ids[0]}" in result.stderr
    for more in ((), ("--style", "numbered")):
        result = redact(model, "in", "-o", "out", *OPTIONS, *more, exit_code=1)
        assert f"vault {ids[0]}: expected it" in result.stderr
    (here / "out/sub/b.csv").write_bytes(b"\xff")
    assert "b.csv is not UTF-8" in restore("v.json", "out", "-o", "new", exit_code=1).stderr
    assert not (here / "new").exists()


@pytest.mark.parametrize("style", ["label", "mask", "surrogate", "numbered"])
def test_a_text_that_is_json_stays_json(model, here, style):
    """A placeholder or a surrogate stands in a string, and a number that changes becomes one."""
    body = {"who": 'Ann saw Rome . "', "n": [1, None, {"x": "Bob saw Kiel ."}]}
    (here / "a.jsonl").write_text(json.dumps({"id": 1, "text": json.dumps(body)}) + "\n")
    args = ("-o", "b.jsonl", "--style", style, *OPTIONS)
    redact(model, "a.jsonl", *args)
    (record,) = read(here / "b.jsonl")
    found = json.loads(record["text"])
    assert list(found) == ["who", "n"] and len(found["n"]) == 3 and list(found["n"][2]) == ["x"]
    assert not any(name in record["text"] for name in ("Ann", "Rome", "Bob", "Kiel"))
    parts = [record["text"][span["start"] : span["end"]] for span in record["spans"]]
    assert len(parts) >= 4 and (style != "label" or "[PERSON]" in parts)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["surrogate", "numbered"])
def test_killed_at_any_moment(model, here, style):
    """Nothing is lost or twice, surrogates of one run are equal, and each number has its name."""
    rng = random.Random(0)
    lines = [f"{rng.choice(['Ann', 'Bob', 'Eve'])} saw Rome ." for _ in range(4_000)]
    text = "".join(f"{json.dumps({'i': i, 'x': x})}\n" for i, x in enumerate(lines))
    (here / "a.jsonl").write_text(text)
    (here / "b.jsonl").write_text(text)
    command = ["spacy", "bcrf", "redact", model, "a.jsonl", "b.jsonl", "-o", "out", *OPTIONS]
    command += ["--fields", "x"]
    command += ["--style", style, *(["--vault", "v.json"] if style == "numbered" else [])]
    n_kills, parts, most = 0, here / "out/.parts/shards", 0
    while n_kills < 3:
        process = start_module(command, here, here / "log")
        target = min(most + rng.randrange(1, 3), 6)
        end = time.monotonic() + 60
        while process.is_alive() and time.monotonic() < end:
            n = len(list(parts.glob("0*"))) if parts.exists() else 0
            if n >= target:
                break
            time.sleep(0.002)
        assert process.is_alive(), (here / "log").read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        most = max(most, n)
        n_kills += 1
    process = start_module(command, here, here / "log")
    process.join()
    assert process.exitcode == 0, (here / "log").read_text()
    files = {path.name for path in here.joinpath("out").iterdir()}
    assert files - {".vault-id"} == {"a.jsonl", "b.jsonl"}
    names = {}
    for name in ("a.jsonl", "b.jsonl"):
        found = read(here / "out" / name)
        assert [one["i"] for one in found] == [*range(4_000)]
        for old, new in zip(lines, found, strict=True):
            names.setdefault(old.split()[0], set()).add(new["x"].split()[0])
    assert len(names) == 3 and all(len(found) == 1 for found in names.values())
    if style == "numbered":
        restore("v.json", "out/b.jsonl", "-o", "back.jsonl")
        assert (here / "back.jsonl").read_text() == text
