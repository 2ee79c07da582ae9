"""brat standoff: a text `NAME.txt` and its annotation `NAME.ann`.

    T1<TAB>Protein 48 53<TAB>BMP-6        an entity of the characters 48 to 53
    T2<TAB>Cell 10 14;20 25<TAB>left cell   a discontinuous entity: two fragments

A Doc has no discontinuous entities: each fragment becomes a span of the label, and the entity is
counted. Relations, events, attributes, normalizations and notes are left out, and counted.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from bcrf.io.json_objects import Item, Problem
from bcrf.io.text import CorpusError, check_text

_BOM = "\ufeff"
_ENTITY = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")


def find_annotations(path: Path) -> list[Path]:
    """Return the .ann files of a folder and of the folders below it, none of a file."""
    found = path.rglob("*.ann") if path.is_dir() else ()
    return sorted(file for file in found if not file.name.startswith("."))


def read_document(path: Path, left_out: Counter[str]) -> Item:
    """Return text and spans of one of a pair of files, or a problem. CorpusError if unreadable."""
    text, annotation = (_read(path.with_suffix(suffix)) for suffix in (".txt", ".ann"))
    if text.startswith(_BOM):
        text = " " + text.removeprefix(_BOM)  # offsets count it
    lines = annotation.removeprefix(_BOM).split("\n")
    spans: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            spans += _read_line(line, text, left_out)
        except Problem as problem:
            problem.n_spans = sum(line.startswith("T") for line in lines)
            return Item(f"{path.with_suffix('.ann')}:{number}", problem)
    return Item(str(path), {"text": text, "spans": spans})


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
        left_out["links between the fragments of a discontinuous entity"] += 1
    own, found = columns[2], " ".join(text[start:end] for start, end in fragments)
    if own.split() != found.split():
        what = f"the entity has the text {own[:60]!r}, but {match[2]} is {found[:60]!r}"
        raise Problem("another text", what)
    return [{"start": start, "end": end, "label": match[1]} for start, end in fragments]


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
        raise CorpusError(f"{path}: byte {error.start} is not UTF-8") from None
