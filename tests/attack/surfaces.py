"""Cases of what attacks found: signs of configs, forks, brackets, damaged states."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from typer.testing import CliRunner

from bcrf.chain import CRF, Potentials
from spacy_bcrf import loading
from spacy_bcrf.cli import app
from spacy_bcrf.corpora import text_docs
from spacy_bcrf.corpora.formats import votes
from tests.attack.forking import fork_beside
from tests.tiny_training import network, train

TEXT = "Ann saw Rome ."
SIGNS = ("$", "${", "${x.y}", "$$", "%", "%(x)s", "'", '"', "\\", "\n", ".", ":", "=", "#", ";")
SIGNS += ("[x]", "{", "}", "null", "1", "*", "@", "é", "&", "<b>", "|", "!", " x ")
"""Parts of labels that configs, JSON, paths or pages give a meaning."""


def run(*arguments: object) -> tuple[int, str]:
    """Run a command here. RETURNS exit code and output, without a traceback or "Aborted"."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output and "Aborted" not in result.output, result.output
    return result.exit_code, result.output


def signs(model: Path, labels: list[str]) -> None:
    """Labels with signs of configs keep predictions, temperatures and promises in files."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", "ner", config={"model": network()})
    names = [f"a{label}b" for label in labels]
    docs = []
    for name in names * 80:
        i = names.index(name)
        words = [f"name{i}", "saw", f"Rome{len(docs)}", "."]
        # `calibrate` needs some wrong predictions.
        tag = "O" if len(docs) % 7 == 6 else f"B-{name}"
        docs.append(Doc(nlp.vocab, words=words, ents=[tag, "O", "O", "O"]))
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs[: len(names)]], steps=40)
    nlp.to_disk("model")
    DocBin(docs=docs[::2]).to_disk("dev.spacy")
    DocBin(docs=docs[1::2]).to_disk("more.spacy")
    found = [_read_ents(nlp(doc.text)) for doc in docs]
    for command, last in (
        (("calibrate", "model", "dev.spacy", "--by", "label"), "calibrated"),
        (("control", "calibrated", "more.spacy", "--recall", "0.6"), "safe"),
    ):
        code, output = run(*command, "-p", "ner", "-o", last)
        assert code == 0, output
    again = spacy.load("safe")
    for _ in range(2):
        cfg = dict(again.get_pipe("ner").cfg)
        again.to_disk("again")
        again = spacy.load("again")
        assert again.get_pipe("ner").cfg == cfg
    assert again.get_pipe("ner").labels == nlp.get_pipe("ner").labels
    assert [_read_ents(spacy.load("calibrated")(docs[0].text))] == found[:1]
    code, output = run("redact", "again", "dev.spacy", "-p", "ner", "-o", "out.jsonl")
    assert code == 0 and "no promise for" not in output, output


def _read_ents(doc: Doc) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label_) for span in doc.ents]


def forks(model: Path, n: int) -> None:
    """Forks beside threads that compute chains, or predict, end."""
    potentials = np.zeros((60, 3)), np.zeros((3, 3)), np.array([20, 40], "int32")

    def compute() -> list[Any]:
        chain = Potentials(*potentials)
        found = CRF().marginals(chain, edges=True).unary.tolist()
        return [found, CRF().decode(chain).tolist()]

    fork_beside(compute, n)
    nlp = spacy.blank("xx")
    pipe: Any = nlp.add_pipe("bcrf_ner")
    docs = [
        Doc(nlp.vocab, words=[f"Ann{i}", "in", "Rome"], ents=["B-A", "O", "B-B"]) for i in range(99)
    ]
    nlp.initialize(lambda: [Example(doc, doc) for doc in docs])
    fork_beside(lambda: pipe.find_potentials(docs, True).unary.tolist(), n)


READERS = {
    "annotate": ("annotate", "{model}", "{file}", "-o", "{out}", "--timeout", "1"),
    "redact": ("redact", "{model}", "{file}", "-o", "{out}", "--threshold", "0.5"),
    "rank": ("rank", "{model}", "{file}", "-o", "{out}"),
    "review": ("review", "{model}", "{file}", "-o", "{out}.html"),
    "monitor": ("monitor", "{model}", "{file}", "--reference", "{file}"),
    "convert": ("convert", "{file}", "{out}.spacy", "--timeout", "1", "--skip-malformed"),
    "distill": ("distill", "{file}", "-o", "{out}"),
    "leaks": (
        "redact",
        "{model}",
        "{gold}",
        "-o",
        "{out}",
        "--threshold",
        ".5",
        "--report",
        "l.json",
    ),
    "report": ("report", "{model}", "{gold}", "-o", "r.json"),
}
"""Commands that read texts."""


def readers(model: Path, command: str, bomb: str, texts: list[str]) -> None:
    """A text that the tokenizer never ends, and an empty one, are named in seconds."""
    lines = [*texts, "", bomb * 60_000, TEXT]
    rows = (json.dumps({"text": text, "spans": []}) for text in lines)
    Path("a.jsonl").write_text("\n".join(rows))
    vocab = spacy.blank("xx").vocab
    docs = [Doc(vocab, [line], spaces=[False], ents=["B-PERSON"]) for line in lines if line.strip()]
    DocBin(docs=docs).to_disk("a.spacy")
    values = {"model": model, "file": "a.jsonl", "gold": "a.spacy", "out": "out"}
    arguments = [argument.format(**values) for argument in READERS[command]]
    pipe = () if command == "convert" else ("-p", "ner")
    start = time.monotonic()
    with ExitStack() as patched:
        for module in (text_docs, loading, votes):
            patched.enter_context(patch.object(module, "SECONDS", 1.0))
        code, output = run(*arguments, *pipe)
    assert time.monotonic() - start < 60
    assert code in (0, 1, 3), output
    assert code or "longer" in output or bomb not in "([", output


STATES = {
    "clusters": (
        ("clusters", "texts.txt", "-o", "c.tsv", "-k", "2"),
        "c.tsv.state",
    ),
    "monitor": (("monitor", "{model}", "texts.txt", "-p", "ner", "--state", "w.json"), "w.json"),
}
"""Commands with a state, and its file."""


def states(model: Path, command: str, content: bytes) -> None:
    """A damaged state is named, or the work starts again."""
    Path("texts.txt").write_text(f"{TEXT}\nBob saw Kiel .\n" * 20)
    arguments, state = STATES[command]
    Path(state).write_bytes(content)
    code, output = run(*(argument.format(model=model) for argument in arguments))
    assert code == 0 or state in output, output
