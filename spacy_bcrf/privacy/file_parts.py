"""Parts of files that keep their format: lines, rows, or whole files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bcrf.io.text import BOM, CorpusError, Line, scan_lines, text_suffix
from spacy_bcrf.corpora.formats.plain import read_whole
from spacy_bcrf.corpora.formats.tables import Rows, read_header
from spacy_bcrf.corpora.texts import Advance, Rejected, TextColumns, TextItem, TextRecord

from .documents import read_document
from .redact_columns import read_rows

LINES = 500
"""Most lines of a log in one document."""
MOST_CHARACTERS = 100_000
"""A document of lines ends after this number of characters."""
_BLANKS = f" \t\r\n{BOM}"
SAMPLE = 1000
"""Records of a file in which each chosen field must be."""


@dataclass(slots=True)
class Source(TextRecord):
    """A part of a file. kind: see `read_document`. file: its number.

    head: beginning of the text that is not of this part, such as the header of a table. is_text:
    False for a header and for blank lines.
    """

    kind: str = ""
    file: int = 0
    head: str = ""
    is_text: bool = True


def read_sources(
    path: Path, numbers: Mapping[Path, int], columns: TextColumns, advance: Advance
) -> Iterator[TextItem]:
    """Yield the parts of a file, in its order. numbers: of files."""
    for item in _read(path, text_suffix(path), columns, advance):
        yield replace(item, file=numbers[path]) if isinstance(item, Source) else item


def _read(path: Path, kind: str, columns: TextColumns, advance: Advance) -> Iterator[TextItem]:
    is_table, head = kind in (".csv", ".tsv"), ""
    if is_table:
        lines = _read_rows(path, advance)
    elif kind in (".jsonl", ".ndjson", ".log") or (kind == ".txt" and not columns.whole_files):
        lines = scan_lines(path, advance)
    elif kind == ".parquet":
        for number, row in enumerate(read_rows(path, advance), 1):
            place = f"{path}:{number}"
            if isinstance(row, Exception):
                yield Rejected(place, place, f"cannot be read: {row}")
            else:
                yield Source(place, place, row, kind=".json")
        return
    else:
        item = read_whole(path, advance, "utf-8")
        if isinstance(item, TextRecord):
            item = Source(item.id, item.place, item.text, kind=kind)
        yield item
        return
    for block in _split(lines, LINES if kind == ".log" else 1):
        item = _make(block, kind, head)
        if is_table and not head and any(map(_is_text, block)):
            if isinstance(item, Rejected):
                raise CorpusError(f"{item.place}: {item.reason}")
            head = item.text or ""  # the header, alone
            item.is_text = False
        yield item


def _read_rows(path: Path, advance: Advance) -> Iterator[Line]:
    rows = Rows(path, advance)
    for number, row in rows:
        yield Line(path, number, rows.source, row if isinstance(row, str) else None)


def _is_text(line: Line) -> bool:
    return line.problem is not None or bool(line.text.strip(_BLANKS))


def _split(lines: Iterable[Line], most: int) -> Iterator[list[Line]]:
    """Yield up to `most` lines with the blank ones around them, and bad lines alone."""
    block: list[Line] = []
    n = n_characters = 0
    for line in lines:
        is_full = n == most or n_characters >= MOST_CHARACTERS
        if block and (line.problem or block[-1].problem or (is_full and _is_text(line))):
            yield block
            block, n, n_characters = [], 0, 0
        block.append(line)
        n += _is_text(line)
        n_characters += len(line.text)
    if block:
        yield block


def _make(lines: Sequence[Line], kind: str, head: str) -> Source | Rejected:
    """Return lines as one document. head: header of their table."""
    first = next(filter(_is_text, lines), None)
    path, number, _, problem, *_ = first or lines[0]
    place = f"{path}:{number}"
    if problem is not None:
        return Rejected(place, place, problem)
    if first is None:  # only blank lines
        kind, head = ".txt", ""
    elif kind in (".jsonl", ".ndjson"):
        kind = ".json"
    text = head + "".join(x.source for x in lines)
    return Source(place, place, text, kind=kind, head=head, is_text=first is not None)


def check_fields(files: Sequence[Path], fields: Sequence[str] | None) -> None:
    """Raise ValueError for a field that no file has in its first records: it may be misspelt."""
    left = set(fields or ())
    for file in files:
        if text_suffix(file) in (".csv", ".tsv"):
            left.difference_update(read_header(file))
        elif text_suffix(file) in (".json", ".jsonl", ".ndjson", ".parquet"):
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
