"""brat standoff: a text `NAME.txt` and its annotation `NAME.ann`.

    T1<TAB>Protein 48 53<TAB>BMP-6        an entity of the characters 48 to 53
    T2<TAB>Cell 10 14;20 25<TAB>left cell   a discontinuous entity: two fragments

A Doc has no discontinuous entities: the tokens of the fragments are missing, and the entity is
counted. Relations, events, attributes, normalizations and notes are left out, and counted.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bcrf.io.json_objects import Item, Problem
from bcrf.io.text import BOM, CorpusError, check_text, explain_encoding
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import Sample

from . import jsonl

_ENTITY = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")


def has_annotation(text: Path) -> bool:
    """Return whether a text has its .ann file beside it."""
    return text.suffix == ".txt" and text.with_suffix(".ann").exists()


def find_annotations(path: Path) -> list[Path]:
    """Return the .ann files below a folder and, if there are any, the missing ones of texts."""
    below = [file for file in path.rglob("*") if file.suffix in (".ann", ".txt")]
    found = {file.with_suffix(".ann") for file in below if not file.name.startswith(".")}
    return sorted(found) if any(file.exists() for file in found) else []


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    """Yield the record of one of a pair of files, none for a text without annotation."""
    path = sample.path
    if not path.with_suffix(".ann").exists():
        reading.counts.ignored["text without .ann"] += 1
        return
    item = read_document(path, reading.counts.others)
    read_one = partial(read_record, known_labels=reading.labels)
    yield from reading.read_items([item], read_one, jsonl.count_spans)


def read_document(path: Path, left_out: Counter[str]) -> Item:
    """Return text and spans of one of a pair of files, or a problem, as of an unreadable file."""
    files = path.with_suffix(".txt"), path.with_suffix(".ann")
    try:
        text, annotation = map(_read, files)
    except CorpusError as error:
        place, _, what = str(error).partition(": ")
        return Item(place, Problem("unreadable", what))
    if text.startswith(BOM):
        text = " " + text.removeprefix(BOM)  # offsets count it
    lines = annotation.removeprefix(BOM).split("\n")
    spans: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            spans += _read_line(line, text, left_out)
        except Problem as problem:
            problem.n_spans = sum(line.startswith("T") for line in lines)
            return Item(f"{path.with_suffix('.ann')}:{number}", problem)
    return Item(str(path), {"text": text, "spans": spans})


def read_record(
    fields: dict[str, Any], place: str, known_labels: frozenset[str] | None = None
) -> Record:
    """Read what `read_document` returns. The tokens of fragments are missing. Problem if wrong."""
    record = jsonl.read_record(fields, place, known_labels)
    pairs = list(zip(record.spans, fields["spans"], strict=True))
    record.spans = [span for span, own in pairs if not own["is_part"]]
    record.missing = [record.trim(span)[:2] for span, own in pairs if own["is_part"]]
    return record


def _read_line(line: str, text: str, left_out: Counter[str]) -> list[dict[str, Any]]:
    """Return the spans of a line. Problem if it is malformed, or has another text."""
    if not line.strip():
        return []
    if line[0] in "REAMN#*":
        left_out["relations, events, attributes and notes"] += 1
        return []
    columns = line.rstrip("\r").split("\t")
    is_entity = line[0] == "T" and len(columns) == 3
    match = _ENTITY.fullmatch(columns[1]) if is_entity else None
    if match is None:
        expected = "expected an entity such as 'T1<TAB>LABEL 0 5<TAB>text'"
        raise Problem("malformed line", f"{line[:60]!r}; {expected}")
    fragments = _join([tuple(map(int, x.split())) for x in match[2].split(";")], text)
    if len(fragments) > 1:
        left_out["discontinuous entities"] += 1
    own, found = columns[2], " ".join(text[start:end] for start, end in fragments)
    if own.split() != found.split():
        what = f"the entity has the text {own[:60]!r}, but {match[2]} is {found[:60]!r}"
        raise Problem("another text", what)
    shared = {"label": match[1], "is_part": len(fragments) > 1}
    return [{"start": start, "end": end, **shared} for start, end in fragments]


def _join(fragments: list[tuple[int, ...]], text: str) -> list[tuple[int, ...]]:
    """Join fragments with only white space between: brat cuts entities at line breaks."""
    joined = fragments[:1]
    for start, end in fragments[1:]:
        before = text[joined[-1][1] : start]
        if joined[-1][1] <= start and not before.strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _read(path: Path) -> str:
    if not path.exists():
        raise CorpusError(f"{path}: no such file; brat needs NAME.txt and NAME.ann")
    check_text(path)
    try:
        # Offsets count the carriage returns of line ends.
        with path.open(encoding="utf8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: {explain_encoding(error)}") from None
