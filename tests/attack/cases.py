"""The random cases of `python -m tests.attack`."""

from __future__ import annotations

import builtins
import errno
import gzip
import io
import json
import os
import resource
import shutil
import subprocess
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import spacy
import srsly
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from typer.testing import CliRunner

import spacy_bcrf
from spacy_bcrf.cli import app
from spacy_bcrf.serve.pages import render
from spacy_bcrf.serve.pages.lattice_page import lattice_page
from spacy_bcrf.serve.review import fill_page
from tests.attack.clients import REQUESTS, clients
from tests.attack.redact_characters import check_characters, find_characters
from tests.attack.surfaces import READERS, SIGNS, STATES, forks, readers, signs, states
from tests.tiny_training import network, train

Edits = Sequence[tuple[int, int, bytes]]
TEXT = "Ann saw Rome ."
ENDS = {0, 1, 3, 4}
"""Exit codes of `annotate` that are no crash."""


def make_model(folder: Path) -> Path:
    """Train a pipeline of tagger and entity recognizer."""
    nlp = spacy.blank("xx")
    for factory, name in (("bcrf_tagger", "tagger"), ("bcrf_ner", "ner")):
        nlp.add_pipe(factory, name, config={"model": network()})
    gold = {"entities": [(0, 3, "PERSON"), (8, 12, "LOC")], "tags": ["N", "V", "N", "P"]}
    train(nlp, [Example.from_dict(nlp.make_doc(TEXT), gold)])
    nlp.to_disk(folder)
    return folder


def annotate(model: Path, *arguments: object) -> int:
    """Run the command in this process. RETURNS the exit code; raises what is no exit."""
    result = CliRunner().invoke(app, ["annotate", str(model), *map(str, arguments), "-p", "ner"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in ENDS and "Traceback" not in result.output, result.output
    return result.exit_code


def rows(output: Path) -> list[dict[str, Any]]:
    """Return the written documents, in order."""
    found = []
    for path in sorted((output / "shards").glob("0*")):
        found += map(json.loads, path.read_text(encoding="utf8").splitlines())
    return found


def check_counts(output: Path) -> tuple[int, int]:
    """Check that read = written + failed in each shard. RETURNS written and failed documents."""
    lines = map(json.loads, (output / "progress.jsonl").read_text(encoding="utf8").splitlines())
    shards = [line for line in lines if "complete" not in line]
    for shard in shards:
        assert shard["n_read"] == shard["n_written"] + len(shard["failures"]), shard
    written = sum(shard["n_written"] for shard in shards)
    assert written == len(rows(output))
    errors = output / "errors.jsonl"
    n_errors = len(errors.read_bytes().splitlines()) if errors.exists() else 0
    assert n_errors == sum(len(shard["failures"]) for shard in shards)
    return written, n_errors


edits = st.lists(
    st.tuples(
        st.integers(0, 1 << 20),
        st.integers(0, 100),
        st.binary(max_size=20)
        | st.sampled_from(
            [b"\n", b"\r", b"\xff", b"\xef\xbb\xbf", b"NaN", b'"', b"[", b"{}", b"1e400"]
        ),
    ),
    min_size=1,
    max_size=8,
)
"""Changes of bytes: place, number of bytes that go, bytes that come."""


def change(data: bytes, changes: Edits) -> bytes:
    """Return the changed bytes."""
    for at, n, new in changes:
        start = at % (len(data) + 1)
        data = data[:start] + new + data[start + n :]
    return data


names = st.sampled_from(["a.jsonl", "a.txt", "a.csv", "a.jsonl.gz"])
lines = st.binary(max_size=300) | st.sampled_from(
    [b"", b'{"text": "a", "meta": [[1, {"x": null}]], "tokens": ["a"]}', b'"a","b"', b"[" * 999]
)


def records(model: Path, name: str, lines: list[bytes | Edits | None], shard: int) -> None:
    """Hostile lines among good ones: no good line is lost, and the counts add up.

    lines: bytes, changes of a good line, or None for a good line.
    """
    good = TEXT.encode() if name[2:] in ("csv", "txt") else json.dumps({"text": TEXT}).encode()
    found = [line if isinstance(line, bytes) else change(good, line or []) for line in lines]
    found = [line.replace(b"\n", b" ") for line in found]
    # An open quote of a table takes the lines after it only until they are no row.
    n_good = lines.count(None)
    data = b"\n".join([*([b"text"] if name == "a.csv" else []), *found])
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    code = annotate(model, name, "-o", "out", "--shard", shard)
    # A first line that starts with a bracket makes a list, which can end at any error.
    if code in (0, 3):
        written, failed = check_counts(Path("out"))
        n_found = sum(row["text"] == TEXT for row in rows(Path("out")))
        assert n_found >= n_good or name == "a.csv", (n_found, n_good, written, failed)
        assert bool(failed) == (code == 3)


odd = st.sampled_from(
    [None, 1, b"x", 1.5, "x", "{", "[]", '{"a": NaN}', ["x"], {"a": 1}, "x" * 2000, -1]
)


def documents(model: Path, data: list[dict[str, Any]], changes: Edits, format: str) -> None:
    """`.spacy` files with damaged bytes and odd user data."""
    nlp = spacy.blank("xx")
    docs = [nlp.make_doc(TEXT) for _ in data]
    for doc, values in zip(docs, data, strict=True):
        doc.user_data.update(values)
    Path("a.spacy").write_bytes(change(DocBin(docs=docs, store_user_data=True).to_bytes(), changes))
    if annotate(model, "a.spacy", "-o", "out", "-f", format) in (0, 3) and format == "jsonl":
        assert sum(check_counts(Path("out"))) == len(docs)


class _Fault(BaseException):
    """The end of the process, as by a signal."""


def faults(model: Path, at: int, kind: int | None) -> None:
    """A file operation fails or ends the process. The same command then gives the same output."""
    lines = [json.dumps({"text": TEXT, "n": i}) if i % 7 != 3 else "{" for i in range(20)]
    Path("a.jsonl").write_text("\n".join(lines))
    options = ("a.jsonl", "--shard", 4)
    annotate(model, *options, "-o", "whole")
    count = 0

    def strike(name: object) -> None:
        nonlocal count
        if "out" in str(name):
            count += 1
            if count == at and kind is None:
                raise _Fault
            if count == at:
                raise OSError(kind, os.strerror(kind))

    names = {os: ("open", "replace", "rename", "unlink", "mkdir", "chmod"), io: ("open",)}
    names[builtins] = ("open",)
    kept = {(module, name): getattr(module, name) for module in names for name in names[module]}
    sync, kept_sync = os.fsync, os.fsync

    def fake(call: Callable) -> Callable:
        def operation(path: Any, *arguments: Any, **more: Any) -> Any:
            strike(path)
            return call(path, *arguments, **more)

        return operation

    try:
        for (module, name), call in kept.items():
            setattr(module, name, fake(call))
        os.fsync = lambda descriptor: (strike("out"), sync(descriptor))[1]
        CliRunner().invoke(
            app, ["annotate", str(model), *map(str, options), "-o", "out", "-p", "ner"]
        )
    except _Fault:
        pass
    finally:
        for (module, name), call in kept.items():
            setattr(module, name, call)
        os.fsync = kept_sync
    assert annotate(model, *options, "-o", "out") == 3
    for name in ("shards", "errors.jsonl"):
        for path in sorted(Path("whole", name).rglob("*")) or [Path("whole", name)]:
            same = Path("out") / path.relative_to("whole")
            assert same.read_bytes() == path.read_bytes(), same
    left = [path for path in Path("out").rglob("*") if "unfinished" in path.name]
    assert not left and sum(check_counts(Path("out"))) == 20


def folders(model: Path, which: int, changes: Edits) -> None:
    """A damaged file of a finished run is named, or changes nothing; --redo mends it."""
    lines = [json.dumps({"text": TEXT}) if i % 5 != 3 else "{" for i in range(12)]
    Path("a.jsonl").write_text("\n".join(lines))
    options = ("a.jsonl", "-o", "out", "--shard", 3)
    annotate(model, *options)
    before = {path: path.read_bytes() for path in sorted(Path("out/shards").iterdir())}
    errors = sorted(Path("out/errors.jsonl").read_bytes().splitlines())
    names = [*before, Path("out/progress.jsonl"), Path("out/errors.jsonl")]
    path = names[which % len(names)]
    path.write_bytes(change(path.read_bytes(), changes))
    code = annotate(model, *options)
    if code == 1:
        code = annotate(model, *options, "--redo")
    assert code == 3 and before == {path: path.read_bytes() for path in before}
    # A shard that is annotated again comes last.
    assert sorted(Path("out/errors.jsonl").read_bytes().splitlines()) == errors


fields = st.tuples(
    st.integers(0, 99), st.sampled_from([None, 0, -1, 2**40, "x", b"", [], {}, [{}], [None]])
)


def models(model: Path, name: str, changed: Edits | tuple[int, Any]) -> None:
    """A damaged component loads, or a ValueError names its folder.

    changed: changes of bytes, or the index of a key of the model and a new value.
    """
    folder = Path("model")
    shutil.copytree(model, folder)
    path = folder / name
    data = path.read_bytes()
    if isinstance(changed, list):
        path.write_bytes(change(data, changed))
    else:
        which, value = changed
        message = srsly.msgpack_loads(data) if path.name == "model" else json.loads(data)
        message[sorted(message)[which % len(message)]] = value
        as_bytes = srsly.msgpack_dumps if path.name == "model" else lambda m: repr(m).encode()
        path.write_bytes(as_bytes(message))
    try:
        nlp = spacy.load(folder)
    except ValueError as error:
        assert path.parent.name in str(error), error
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ValueError):
            nlp(TEXT)


SCRIPTS = ["document.title='PWNED'", "document.title=`PWNED`", "eval('document.title=\"PWNED\"')"]
SHAPES = [
    "<script>{}</script>",
    "</script><script>{}</script>",
    "<img src=x onerror={}>",
    '"><svg onload={}>',
    "'><body onload={}>",
    '<iframe srcdoc="<script>parent.{}</script>">',
    "<a href=javascript:{} autofocus onfocus={}>a</a>",
    "</style><script>{}</script>",
    "<!--><script>{}</script>-->",
    "]]><script>{}</script>",
    "${{{}}}",
    "{{{{{}}}}}",
    "<details open ontoggle={}>",
    "<input autofocus onfocus={}>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror={}>",
    "&lt;script&gt;{}&lt;/script&gt;",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
    "<base href=//x><script>{}</script>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "</title><script>{}</script>",
]
ENVELOPES = ["{}", "Ann {} Rome", "{}\x00", "\u202e{}", "{}{}"]
PAYLOADS = [
    envelope.replace("{}", shape.replace("{}", script).replace("{{", "{").replace("}}", "}"))
    for envelope, shape, script in product(ENVELOPES, SHAPES, SCRIPTS)
]
"""300 texts that set the title of a page, if one of them runs."""


def make_pages(model: Path, texts: list[str], labels: list[str]) -> dict[str, str]:
    """Return pages whose texts and labels are payloads."""
    nlp = spacy.load(model)
    found = {}
    doc = Doc(nlp.vocab, words=texts)
    doc.ents = [Span(doc, i, i + 1, label) for i, label in enumerate(labels)]
    doc.spans["x"] = list(doc.ents)
    for key in (None, "x"):
        found[f"displacy-{key}"] = spacy_bcrf.displacy(doc, key, jupyter=False, page=True)
    record = {"start": 0, "end": 3, "doc": 0, "score": 1.0, "p_gold": 0.1, "p_suggestion": 0.9}
    suspects = [
        {**record, "text": text, "label": text, "kind": kind,
         "suggestion": {"start": 0, "end": 5, "label": text}}
        for text, kind in product(texts, ["type", "boundary"])
    ]  # fmt: skip
    found["audit"] = render("audit.html", script="rows.js", title=texts[0], records=suspects)
    pipe = nlp.get_pipe("ner")
    found["lattice"] = lattice_page(pipe, nlp.get_pipe("tagger")(Doc(nlp.vocab, words=texts)))
    documents = [
        {"text": text, "starts": [0], "ends": [len(text)], "spans": [[0, 1, 0, 0.9, True]],
         "alternatives": [], "id": text, "confidence": 0.5, "place": text, "meta": {}}
        for text in texts
    ]  # fmt: skip
    found["review"] = fill_page(
        {"title": texts[0], "file": texts[1], "labels": texts[:2], "maxAlternatives": 0,
         "documents": documents}
    )  # fmt: skip
    return found


def pages(model: Path, texts: list[str], labels: list[str]) -> None:
    """No payload runs in headless Chromium. Without one, only the policies are checked."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))  # Chromium reserves terabytes
    for name, html in make_pages(model, texts, labels).items():
        assert "Content-Security-Policy" in html, name
        if chromium is None:
            continue
        path = Path(f"{name}.html").absolute()
        path.write_text(html, encoding="utf8", errors="replace")
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += ["--virtual-time-budget=1000", f"--user-data-dir={path.parent}/chromium"]
        done = subprocess.run(
            [*command, path.as_uri()], capture_output=True, text=True, check=False, timeout=100
        )
        assert "<body" in done.stdout, done.stderr[-500:]
        title = (
            done.stdout.split("<title>")[1].split("</title>")[0] if "<title>" in done.stdout else ""
        )
        assert title != "PWNED", name


STEP = 997
"""A case redacts each so many of the characters of Unicode."""


def characters(model: Path, first: int) -> None:
    """Nothing of a redacted name is left in the output."""
    check_characters(find_characters()[first::STEP])


payloads = st.lists(st.sampled_from(PAYLOADS), min_size=9, max_size=9, unique=True)
CASES: list[tuple[Callable[..., None], dict[str, SearchStrategy[Any]]]] = [
    (
        records,
        {
            "name": names,
            "lines": st.lists(st.none() | edits | lines, min_size=1, max_size=60),
            "shard": st.sampled_from([1, 7, 1000]),
        },
    ),
    (faults, {"at": st.integers(1, 160), "kind": st.sampled_from([errno.ENOSPC, errno.EIO, None])}),
    (
        documents,
        {
            "data": st.lists(
                st.dictionaries(st.sampled_from(["id", "meta"]), odd), min_size=1, max_size=9
            ),
            "changes": st.just([]) | edits,
            "format": st.sampled_from(["jsonl", "spacy"]),
        },
    ),
    (folders, {"which": st.integers(0, 99), "changes": edits}),
    (
        models,
        {
            "name": st.sampled_from(["ner/cfg", "ner/model", "tagger/cfg", "tagger/model"]),
            "changed": edits | fields,
        },
    ),
    (pages, {"texts": payloads, "labels": payloads}),
    (signs, {"labels": st.lists(st.sampled_from(SIGNS), min_size=1, max_size=4, unique=True)}),
    (forks, {"n": st.integers(1, 60)}),
    (characters, {"first": st.integers(0, STEP - 1)}),
    (
        readers,
        {
            "command": st.sampled_from([*READERS]),
            "bomb": st.sampled_from(["(", "[", "'", "a", " ", "a.", "\u0301"]),
            "texts": st.lists(st.text(max_size=30), max_size=5),
        },
    ),
    (
        states,
        {
            "command": st.sampled_from([*STATES]),
            "content": st.binary(max_size=40) | st.sampled_from([b"[" * 100_000, b"{}", b"PK"]),
        },
    ),
    (
        clients,
        {
            "moves": st.lists(
                st.tuples(st.sampled_from([*REQUESTS]), st.booleans()), min_size=1, max_size=60
            )
        },
    ),
]
"""Each kind of case with the strategies of its arguments."""
