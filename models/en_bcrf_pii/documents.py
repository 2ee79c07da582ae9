"""Documents with spans of characters: corpora of JSON lines, and the texts of dev.txt.

dev.txt has invented documents of several kinds, each behind a line `=== kind`, with spans written
as `⟦LABEL|text⟧`. The label of what may be private or not is empty. No pipeline learns them.
The authors of strangers.txt and unseen.txt had seen neither dev.txt nor what makes documents.
Calibration and promises read dev.txt and strangers.txt, and nothing reads unseen.txt.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from bcrf.io.text import find_file, open_decompressed
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.pipeline.identifier_recognizer import set_identifiers
from spacy_bcrf.privacy.documents import read_document

DEV, STRANGERS, UNSEEN = (
    Path(__file__).with_name(f"{name}.txt") for name in ("dev", "strangers", "unseen")
)
OURS = {"PLACE": "GPE", "DATE": "DATE_TIME", "OTHER": "MISC"}
"""Our labels for those that the other authors used."""
_MARKUP = re.compile(r"⟦([A-Z_]*)\|([^⟧]*)⟧")


class Document(NamedTuple):
    """A text and its spans, (start, end, label) in characters. kind: of document."""

    text: str
    spans: list[tuple[int, int, str]]
    kind: str = ""


def read_markup(path: Path = DEV) -> Iterator[Document]:
    """Yield the documents of a file as dev.txt."""
    for part in path.read_text("utf8").split("=== ")[1:]:
        kind, _, marked = part.partition("\n")
        found = parse_markup(marked.rstrip("\n"), kind)
        yield found._replace(spans=[(a, b, OURS.get(label, label)) for a, b, label in found.spans])


def parse_markup(marked: str, kind: str = "") -> Document:
    parts, spans, at, n = [], [], 0, 0
    for match in _MARKUP.finditer(marked):
        label, value = match.groups()
        before = marked[at : match.start()]
        n += len(before)
        spans.append((n, n + len(value), label))
        n, at = n + len(value), match.end()
        parts += [before, value]
    return Document("".join([*parts, marked[at:]]), spans, kind)


def read_cells(document: Document, suffix: str) -> Iterator[Document]:
    """Yield the texts of a file of JSON or a table as `redact` reads them, none of another format.

    suffix: of the file, with a dot.
    """
    with suppress(ValueError):
        read = read_document(document.text, suffix)
        places = [(*x, label) for a, b, label in document.spans for x in read.find(a, b)]
        for intro, (first, last) in zip(read.intros, read.texts, strict=True):
            by = len(intro) - first
            spans = [
                (max(a, first) + by, min(b, last) + by, label)
                for a, b, label in places
                if max(a, first) < min(b, last)
            ]
            yield Document(intro + read.text[first:last], spans, document.kind)


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file of JSON lines, which may be compressed."""
    with open_decompressed(find_file(path)) as file:
        yield from map(json.loads, file)


def make_doc(
    nlp: Language, document: Document, annotated: Iterable[str] | None = None, finder: Any = None
) -> Doc:
    """Return a document with entities. annotated: the labels that its O denies, None for all.

    finder: of the identifiers, which are unknown for the chain: spans keep what is outside of them.
    A span of the label "" is unknown.
    """
    set_extensions()
    doc = nlp.make_doc(document.text)
    is_free = [True] * (len(document.text) + 1)
    spans: list[Any] = []
    for identifier in set_identifiers(doc, finder.find(document.text)) if finder else ():
        start, end = identifier.start_char, identifier.end_char
        is_free[start:end] = [False] * (end - start)
        spans.append(Span(doc, identifier.start, identifier.end))
    for start, end, label in document.spans:
        while start < end and not (is_free[start] and document.text[start].isalnum()):
            start += 1
        stop = start
        while stop < end and is_free[stop]:
            stop += 1
        spans.append(doc.char_span(start, stop, label, alignment_mode="expand"))
    kept = filter_spans([span for span in spans if span is not None and not span.text.isspace()])
    known, unknown = [x for x in kept if x.label_], [x for x in kept if not x.label_]
    doc.set_ents(known, missing=unknown, default="outside")
    if annotated is not None:
        doc._.annotated_labels = sorted(annotated)
    return doc
