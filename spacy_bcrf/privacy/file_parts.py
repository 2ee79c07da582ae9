"""Parts of files that keep their format: lines, rows, or whole files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bcrf.io.text import Line, scan_lines, text_suffix
from spacy_bcrf.corpora.formats.plain import read_texts
from spacy_bcrf.corpora.formats.tables import Rows, read_first_row, read_header
from spacy_bcrf.corpora.texts import Advance, Rejected, TextColumns, TextItem, TextRecord

from .documents import read_document

LINES = 500
"""Most lines of a log in one document."""
MOST_CHARACTERS = 100_000
"""A document of lines ends after this number of characters."""
SAMPLE = 1000
"""Records of a file in which each chosen field must be."""


@dataclass(slots=True)
class Source(TextRecord):
    """A part of a file. kind: see `read_document`. file: its number.

    head: beginning of the text that is not of this part, such as the header of a table.
    """

    kind: str = ""
    file: int = 0
    head: str = ""


def read_sources(
    path: Path, numbers: Mapping[Path, int], columns: TextColumns, advance: Advance
) -> Iterator[TextItem]:
    """Yield the parts of a file, in its order. numbers: of files."""
    for item in _read(path, text_suffix(path), columns, advance):
        yield replace(item, file=numbers[path]) if isinstance(item, Source) else item


def _read(path: Path, kind: str, columns: TextColumns, advance: Advance) -> Iterator[TextItem]:
    if kind in (".jsonl", ".ndjson"):
        for line in scan_lines(path, advance):
            if line.problem or line.text.strip():
                yield _make([line], ".json")
    elif kind in (".csv", ".tsv"):
        yield from _read_rows(path, kind, advance)
    elif kind == ".log" or (kind == ".txt" and not columns.whole_files):
        yield from _read_blocks(path, kind, LINES if kind == ".log" else 1, advance)
    else:
        for item in read_texts(path, TextColumns(whole_files=True), advance):
            if isinstance(item, TextRecord):
                yield Source(item.id, item.place, item.text, kind=kind)
            else:
                yield item


def _make(lines: Sequence[Line], kind: str) -> TextItem:
    place = f"{lines[0].path}:{lines[0].number}"
    problem = next((line.problem for line in lines if line.problem), None)
    if problem is not None:
        return Rejected(place, place, problem)
    return Source(place, place, "".join(f"{line.text}\n" for line in lines), kind=kind)


def _read_blocks(path: Path, kind: str, most: int, advance: Advance) -> Iterator[TextItem]:
    block: list[Line] = []
    n = 0
    for line in scan_lines(path, advance):
        if line.problem:
            yield from [_make(block, kind)] * bool(block)
            yield _make([line], kind)
            block, n = [], 0
            continue
        block.append(line)
        n += len(line.text)
        if len(block) == most or n >= MOST_CHARACTERS:
            yield _make(block, kind)
            block, n = [], 0
    if block:
        yield _make(block, kind)


def _read_rows(path: Path, kind: str, advance: Advance) -> Iterator[TextItem]:
    """Yield the header alone, and each row behind it."""
    rows = Rows(path, advance)
    if not read_first_row(path, rows):
        return
    head = rows.source
    yield Source(f"{path}:1", f"{path}:1", head, kind=kind)
    for number, row in rows:
        place = f"{path}:{number}"
        if isinstance(row, str):
            yield Rejected(place, place, row)
        elif row:
            yield Source(place, place, head + rows.source, kind=kind, head=head)


def check_fields(files: Sequence[Path], fields: Sequence[str] | None) -> None:
    """Raise ValueError for a field that no file has in its first records: it may be misspelt."""
    left = set(fields or ())
    for file in files:
        if text_suffix(file) in (".csv", ".tsv"):
            left.difference_update(read_header(file))
        elif text_suffix(file) in (".json", ".jsonl", ".ndjson"):
            for item in islice(read_sources(file, {file: 0}, TextColumns(), int), SAMPLE):
                left = {name for name in left if not _has_field(item, name)}
    if left:
        raise ValueError(f"{', '.join(sorted(left))}: no such field; expected names of JSON or CSV")


def _has_field(item: TextItem, name: str) -> bool:
    """Return whether JSON has a field with a string or a number."""
    if not isinstance(item, Source):
        return False
    try:
        return bool(read_document(item.text or "", ".json", [name]).texts)
    except ValueError:
        return False
