"""The random cases of `python -m tests.attack`."""

from __future__ import annotations

import builtins
import errno
import gzip
import io
import json
import os
import random
import resource
import shutil
import subprocess
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import spacy
import srsly
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from typer.testing import CliRunner

import spacy_bcrf
from spacy_bcrf.cli import app
from spacy_bcrf.cli.pages.audit import audit_page
from spacy_bcrf.cli.pages.lattice import lattice_page
from spacy_bcrf.cli.review.page import fill_page
from tests.fuzz.mutations import mutate
from tests.tiny_training import network, train

Case = Callable[[random.Random, Path], None]
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


def records(rng: random.Random, model: Path) -> None:
    """Hostile lines among good ones: no good line is lost, and the counts add up."""
    kind = rng.choice(["a.jsonl", "a.txt", "a.csv", "a.jsonl.gz"])
    good = {"csv": TEXT.encode(), "txt": TEXT.encode()}.get(
        kind[2:], json.dumps({"text": TEXT}).encode()
    )
    seeds = [good, b'{"text": "a", "meta": [[1, {"x": null}]], "tokens": ["a"]}', b'"a","b"', b""]
    lines, n_good = [], 0
    for _ in range(rng.randrange(1, 60)):
        bad = mutate(rng, seeds).replace(b"\n", b" ")[: 1 << 16]
        # An open quote of a table takes the lines after it only until they are no row.
        is_good = rng.random() < 0.5
        n_good += is_good
        lines.append(good if is_good else bad)
    data = b"\n".join([*([b"text"] if kind == "a.csv" else []), *lines])
    if kind.endswith(".gz"):
        data = gzip.compress(data)
    Path(kind).write_bytes(data)
    code = annotate(model, kind, "-o", "out", "--shard", rng.choice([1, 7, 1000]))
    # A first line that starts with a bracket makes a list, which can end at any error.
    if code in (0, 3):
        written, failed = check_counts(Path("out"))
        n_found = sum(row["text"] == TEXT for row in rows(Path("out")))
        assert n_found >= n_good or kind == "a.csv", (n_found, n_good, written, failed)
        assert bool(failed) == (code == 3)


def documents(rng: random.Random, model: Path) -> None:
    """`.spacy` files with damaged bytes and odd user data."""
    nlp = spacy.blank("xx")
    docs = [nlp.make_doc(TEXT) for _ in range(rng.randrange(1, 9))]
    odd = [None, 1, b"x", 1.5, "x", "{", "[]", '{"a": NaN}', ["x"], {"a": 1}, "x" * 2000, -1]
    for doc in docs:
        doc.user_data.update({key: rng.choice(odd) for key in ("id", "meta") if rng.random() < 0.5})
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    Path("a.spacy").write_bytes(mutate(rng, [data]) if rng.random() < 0.5 else data)
    format = rng.choice(["jsonl", "spacy"])
    if annotate(model, "a.spacy", "-o", "out", "-f", format) in (0, 3) and format == "jsonl":
        assert sum(check_counts(Path("out"))) == len(docs)


class _Fault(BaseException):
    """The end of the process, as by a signal."""


def faults(rng: random.Random, model: Path) -> None:
    """A file operation fails or ends the process. The same command then gives the same output."""
    lines = [json.dumps({"text": TEXT, "n": i}) if i % 7 else "{" for i in range(20)]
    Path("a.jsonl").write_text("\n".join(lines))
    options = ("a.jsonl", "--shard", 4)
    annotate(model, *options, "-o", "whole")
    at, kind = rng.randrange(1, 160), rng.choice([errno.ENOSPC, errno.EIO, None])
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


def folders(rng: random.Random, model: Path) -> None:
    """A damaged file of a finished run is named, or changes nothing; --redo mends it."""
    lines = [json.dumps({"text": TEXT}) if i % 5 else "{" for i in range(12)]
    Path("a.jsonl").write_text("\n".join(lines))
    options = ("a.jsonl", "-o", "out", "--shard", 3)
    annotate(model, *options)
    before = {path: path.read_bytes() for path in Path("out/shards").iterdir()}
    errors = sorted(Path("out/errors.jsonl").read_bytes().splitlines())
    names = [*before, Path("out/progress.jsonl"), Path("out/errors.jsonl")]
    path = rng.choice(names)
    damaged = mutate(rng, [path.read_bytes()])
    path.write_bytes(damaged)
    code = annotate(model, *options)
    if code == 1:
        code = annotate(model, *options, "--redo")
    assert code == 3 and before == {path: path.read_bytes() for path in before}
    # A shard that is annotated again comes last.
    assert sorted(Path("out/errors.jsonl").read_bytes().splitlines()) == errors


def models(rng: random.Random, model: Path) -> None:
    """A damaged component loads, or a ValueError names its folder."""
    folder = Path("model")
    shutil.copytree(model, folder)
    path = folder / rng.choice(["ner", "tagger"]) / rng.choice(["cfg", "model"])
    data = path.read_bytes()
    if path.name == "model" and rng.random() < 0.5:
        message = srsly.msgpack_loads(data)
        key = rng.choice(list(message))
        message[key] = rng.choice([None, 0, -1, 2**40, "x", b"", [], {}, [{}], [None]])
        path.write_bytes(srsly.msgpack_dumps(message))
    else:
        path.write_bytes(mutate(rng, [data]))
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


def make_pages(rng: random.Random, model: Path) -> dict[str, str]:
    """Return pages whose texts and labels are payloads."""
    texts = rng.sample(PAYLOADS, 20)
    nlp = spacy.load(model)
    found = {}
    doc = Doc(nlp.vocab, words=texts)
    doc.ents = [Span(doc, i, i + 1, label) for i, label in enumerate(rng.sample(PAYLOADS, 20))]
    doc.spans["x"] = list(doc.ents)
    for key in (None, "x"):
        found[f"displacy-{key}"] = spacy_bcrf.displacy(doc, key, jupyter=False, page=True)
    record = {"start": 0, "end": 3, "doc": 0, "score": 1.0, "p_gold": 0.1, "p_suggestion": 0.9}
    suspects = [
        {**record, "text": text, "label": text, "kind": kind,
         "suggestion": {"start": 0, "end": 5, "label": text}}
        for text, kind in product(texts, ["type", "boundary"])
    ]  # fmt: skip
    found["audit"] = audit_page(texts[0], suspects)
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


def pages(rng: random.Random, model: Path) -> None:
    """No payload runs in headless Chromium. Without one, only the policies are checked."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))  # Chromium reserves terabytes
    for name, html in make_pages(rng, model).items():
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


CASES: list[Case] = [records, faults, documents, folders, models, records, faults, pages]
