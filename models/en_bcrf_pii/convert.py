"""Convert the corpora to one set of labels, and make documents with invented values.

    python -m models.en_bcrf_pii.convert CORPORA OUTPUT

O of a corpus only denies the labels that the corpus annotates. The chain learns no identifiers,
because `bcrf_identifiers` finds them. Training reads the sentences of Presidio's even templates,
and the test reads the odd ones. Presidio's sentences get other values, and contextual-anonymizer
other names. dev.spacy has documents that training does not read, and none of frames.py, which would
be too easy. Promises of a kind of document are fitted on kinds/KIND.spacy. The lists lack some
names, so the pipeline also learns names that are in no list.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from bcrf.io.text import find_file, open_decompressed
from spacy_bcrf.annotation.identifiers import Identifiers
from spacy_bcrf.corpora.tokenization import make_blank
from spacy_bcrf.readers.doc_files import write_all

from .documents import (
    DEV,
    STRANGERS,
    Document,
    make_doc,
    parse_markup,
    read_cells,
    read_json_lines,
    read_markup,
)
from .frames import Frames
from .values import NATIONS, Values
from .web import find_fillers, find_names, read_ewt, read_uner

COPIES = 12
"""Sentences made of each one of Presidio."""
FRAMES = 180
"""Documents made of each kind."""
MORE = {"mail": 2, "plain": 2, "spoken": 2}
"""How many times FRAMES documents of a kind are made, if not once: names are hardest there."""
OF_PROMISE = {"mail": "mails", "chat": "chats"}
"""Kinds of made documents with a promise, for which PROMISED more are made."""
PROMISED = 80
CELLS = 4
"""The cells of one made table of this many are documents too, as `redact` reads files."""
HELD_OUT = 12
"""One document of this many is held out."""
LABELS = (
    *("PERSON", "GPE", "ORGANIZATION", "STREET_ADDRESS", "DATE_TIME", "ID", "NRP", "AGE", "TITLE"),
    "MISC",
)
"""Labels of the chain. None is one of `bcrf_identifiers`, which streams ask for."""
OF_TEST = {
    "DOMAIN_NAME": "URL",
    "US_SSN": "NATIONAL_ID",
    "US_DRIVER_LICENSE": "ID",
    "ZIP_CODE": "STREET_ADDRESS",
}
"""Our labels for Presidio's, where they differ."""
MAPS = {
    "PERSON": "PERSON PER NAME DOCTOR USERNAME LAWYER RESPONDENT OTHER_PERSON PETITIONER JUDGE "
    "WITNESS",
    "GPE": "GPE LOC LOCATION",
    "ORGANIZATION": "ORGANIZATION ORG COMPANY UNIVERSITY SCHOOL",
    "STREET_ADDRESS": "STREET_ADDRESS ADDRESS",
    "DATE_TIME": "DATE_TIME DATE DATETIME",
    "ID": "ID CODE ACCOUNT TICKET_ID POLICY_NUMBER TRANSACTION_ID ORDER_NUMBER CLAIM_ID "
    "CASE_NUMBER PESEL NIP EMAIL PHONE",
    "NRP": "NRP",
    "MISC": "MISC QUANTITY",
    "AGE": "AGE",
    "TITLE": "TITLE",
}
OURS = {theirs: ours for ours, names in MAPS.items() for theirs in names.split()}
CORPORA: dict[str, tuple[str, ...]] = {
    "lifebench/train": (
        "PERSON",
        "ORGANIZATION",
        "GPE",
        "ID",
        "STREET_ADDRESS",
        "AGE",
        "NRP",
        "MISC",
    ),
    "contextual-anonymizer/all": ("PERSON", "STREET_ADDRESS", "ID", "DATE_TIME", "MISC"),
    "indian-legal/dev": ("PERSON", "GPE", "STREET_ADDRESS", "DATE_TIME", "ID", "MISC"),
    "panorama-151/all": LABELS,
}
"""The labels that a corpus annotates."""
MOST = {"lifebench/train": 180, "contextual-anonymizer/all": 2000}
"""Documents that are read, of those with many."""
UNKNOWN = (
    *("POSITION", "COURT", "PROVISION", "STATUTE", "PRECEDENT", "TIME", "CURRENCY", "DIAGNOSIS"),
    *("DEPARTMENT", "PROJECT"),
)
"""Labels whose words may be private or not."""
UNER = "uner-english-ewt/en_ewt-ud-dev.iob2"
EWT = "ud-english-ewt/en_ewt-ud-train.conllu"
GSD = "ud-german-gsd/de_gsd-ud-dev.conllu"
JUDGMENTS = ("judgments-a", "judgments-b")
"""Halves of the judgments: the promise of this kind rests on pipelines that learned only one."""
AGAIN = {"judgments-a": 3, "judgments-b": 3, "uner": 1}
"""How many more times training reads a corpus, with other names: there are few real documents."""
_TITLE = re.compile(r"((?:Mr|Mrs|Ms|Miss|Dr|Prof|Sir|Cllr|Herr|Frau)\b\.?)\s+(?=\S)", re.IGNORECASE)
PRESIDIO = "presidio-synth/synth_dataset_v2.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)  # it may have other files
    for folder in ("train", "kinds", "lists"):
        (args.output / folder).mkdir(parents=True)
    values = Values()
    writer = Writer(args.output, values)
    for name, annotated in CORPORA.items():
        found = read_corpus(args.corpora / f"pii/{name}.jsonl", values)
        writer.write(name.split("/")[0], found[: MOST.get(name)], annotated)
    found = read_corpus(args.corpora / "pii/tab-144/train.jsonl", values)
    for i, half in enumerate(JUDGMENTS):
        writer.write(half, found[i::2], LABELS, held_out=False)
        writer.hold_out(found[i::2], LABELS, f"judgments.{half}")
    judgments = read_corpus(args.corpora / "pii/tab-144/dev.jsonl", values)
    writer.hold_out(judgments, LABELS, "judgments")
    writer.write("uner", list(read_uner(find_file(args.corpora / UNER), values.countries)), LABELS)
    web = list(read_ewt(find_file(args.corpora / EWT)))
    writer.write("ewt", web, LABELS)
    read = [one for i, one in enumerate(web) if i % HELD_OUT]
    writer.write(
        "ewt-names", [rename(one, values) for one in find_names(read, values.known())], LABELS
    )
    fillers = [one for one in find_fillers(read) if 10 < len(one) < 150]
    german = [
        one for one in find_fillers(read_ewt(find_file(args.corpora / GSD))) if len(one) < 150
    ]
    frames = Frames(values, fillers, german)
    for kind in frames.kinds:
        n = FRAMES * MORE.get(kind, 1)
        made = [split_titles(parse_markup(frames.make(kind), kind)) for _ in range(n)]
        writer.write(f"made-{kind}", made, LABELS, held_out=False)
        if kind in ("csv", "json"):
            cells = [cell for one in made[::CELLS] for cell in read_cells(one, f".{kind}")]
            writer.write(f"made-{kind}-cells", cells, LABELS, held_out=False)
        if kind in OF_PROMISE:
            more = [split_titles(parse_markup(frames.make(kind), kind)) for _ in range(PROMISED)]
            writer.hold_out(more, LABELS, OF_PROMISE[kind])
    write_presidio(args.corpora, values, writer)
    for path in (DEV, STRANGERS):
        writer.hold_out([split_titles(one) for one in read_markup(path)], LABELS)
    writer.finish()
    for name, words in values.lists().items():
        (args.output / f"lists/{name}.txt").write_text("\n".join(words) + "\n", "utf8")


class Writer:
    """Writes documents in the pipeline's tokens, and holds out one of each HELD_OUT."""

    def __init__(self, output: Path, values: Values) -> None:
        self.output, self._values, self._finder = output, values, Identifiers()
        self._nlp = make_blank("en", "capitals")
        self._held_out: list[Doc] = []
        self._kinds: dict[str, list[Doc]] = {}

    def write(
        self,
        name: str,
        documents: list[Document],
        annotated: Iterable[str],
        held_out: bool = True,
    ) -> None:
        documents = [of_chain(one) for one in documents]
        kept = [one for i, one in enumerate(documents) if i % HELD_OUT or not held_out]
        if held_out:
            self.hold_out(documents[::HELD_OUT], annotated)
        docs = (make_doc(self._nlp, one, annotated, self._finder) for one in kept)
        write_all(docs, self.output / f"train/{name}.spacy")
        for n in range(AGAIN.get(name, 0)):
            others = (rename(one, self._values) for one in kept)
            docs = (make_doc(self._nlp, one, annotated, self._finder) for one in others)
            write_all(docs, self.output / f"train/{name}-again{n}.spacy")

    def hold_out(
        self, documents: list[Document], annotated: Iterable[str], kind: str | None = None
    ) -> None:
        """Keep documents with all their spans, also identifiers. kind: of a promise."""
        docs = [make_doc(self._nlp, of_chain(one), annotated) for one in documents]
        (self._kinds.setdefault(kind, []) if kind else self._held_out).extend(docs)

    def make_test(self, documents: Iterable[Document]) -> None:
        docs = (make_doc(self._nlp, one) for one in documents)
        write_all(docs, self.output / "test.spacy")

    def finish(self) -> None:
        random.Random(0).shuffle(self._held_out)
        write_all(self._held_out, self.output / "dev.spacy")
        for kind, docs in self._kinds.items():
            write_all(docs, self.output / f"kinds/{kind}.spacy")


def read_corpus(path: Path, values: Values) -> list[Document]:
    """Return the documents of a corpus with our labels. What need not be masked is no span."""
    found = []
    left = re.compile(rf"\b(?:{'|'.join(map(re.escape, [*NATIONS, *values.countries]))})\b")
    for one in read_json_lines(path):
        spans = []
        for span in one["spans"]:
            label = OURS.get(span["label"], "" if span["label"] in UNKNOWN else None)
            if span["label"] == "DEM":
                label = find_group(one["text"][span["start"] : span["end"]])
            if label is not None and span.get("identifier") != "NO_MASK":
                spans.append((span["start"], span["end"], label))
        # Annotators leave some nationalities and countries.
        marked = {i for a, b, _ in spans for i in range(a, b)}
        spans += [(*m.span(), "") for m in left.finditer(one["text"]) if m.start() not in marked]
        document = split_titles(Document(one["text"], sorted(spans), path.parent.name))
        if path.parent.name == "contextual-anonymizer":
            document = rename(document, values)
        found.append(document)
    return found


def find_group(text: str) -> str:
    """Return our label for a group of persons: a nationality, an age, or another one."""
    if any(word in NATIONS for word in re.findall(r"\w+", text)):
        return "NRP"
    return "AGE" if re.search(r"\d|\bage", text) else "MISC"


def split_titles(document: Document) -> Document:
    """Return a document whose persons are without titles, which are spans of their own."""
    spans = []
    for start, end, label in document.spans:
        title = _TITLE.match(document.text, start, end) if label == "PERSON" else None
        if title:
            spans.append((start, title.end(1), "TITLE"))
            start = title.end()
        spans.append((start, end, label))
    return document._replace(spans=spans)


def rename(document: Document, values: Values) -> Document:
    """Return a document with other names and places, equal ones for equal words."""
    text, spans = document.text, document.spans
    others: dict[str, str] = {}
    parts, moved, at, n = [], [], 0, 0
    for start, end, label in spans:
        if start < at:
            continue
        old = text[start:end]
        if label == "PERSON":
            for i, word in enumerate(old.split()):
                if word.isalpha() and word not in others:
                    fake = values.any_name()
                    others[word] = fake.last_name() if i else fake.first_name()
            new = " ".join(others.get(word, word) for word in old.split())
        elif label == "GPE":
            new = others.setdefault(old, values.city())
        else:
            new = old
        n += start - at
        moved.append((n, n + len(new), label))
        parts += [text[at:start], new]
        n, at = n + len(new), end
    return Document("".join([*parts, text[at:]]), moved, document.kind)


def write_presidio(corpora: Path, values: Values, writer: Writer) -> None:
    with open_decompressed(find_file(corpora / PRESIDIO)) as file:
        sentences = json.load(file)
    even = [one for one in sentences if one["template_id"] % 2 == 0]
    templates = sorted({one["template_id"] for one in even})
    held_out = [one for one in even if one["template_id"] in templates[::6]]
    kept = [one for one in even if one["template_id"] not in templates[::6]]
    made = [values.fill(one) for one in kept for _ in range(COPIES)]
    writer.write("presidio", [read_sentence(one) for one in made], LABELS)
    writer.hold_out([read_sentence(one) for one in held_out], LABELS)
    writer.make_test(read_sentence(one) for one in sentences if one["template_id"] % 2)


def of_chain(document: Document) -> Document:
    """Return a document with the labels of the chain: what no other label has is an ID."""
    spans = [(a, b, label if label in (*LABELS, "") else "ID") for a, b, label in document.spans]
    return document._replace(spans=spans)


def read_sentence(sentence: dict[str, Any]) -> Document:
    spans = [
        (x["start_position"], x["end_position"], OF_TEST.get(x["entity_type"], x["entity_type"]))
        for x in sentence["spans"]
    ]
    return Document(sentence["full_text"], spans, "presidio")


if __name__ == "__main__":
    main()
