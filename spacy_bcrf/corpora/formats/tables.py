"""Tables with a header: CSV, with a comma, `;`, `|` or tab between the columns, and TSV.

Annotated CSV has a row for each text, with the fields of `jsonl`, or for each word: a column `word`
or `token`, and its entity tag in one such as `tag` or `ner`. A new value in a column such as
`Sentence #`, or a blank row, starts a sentence.
"""

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bcrf.io.json_objects import Item, Problem
from bcrf.io.text import MAX_LINE, CorpusError, Line, scan_lines, text_suffix
from spacy_bcrf.annotation.tag_forms import MISSING, find_form
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import N_LINES, Sample
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.corpora.tagged_sentences import make_records, skip_sentence
from spacy_bcrf.corpora.texts import Advance, Rejected, TextColumns, TextItem, TextRecord

from .jsonl import read_fields, read_text_fields
from .other_spans import parse_value
from .other_texts import ENTITY, TEXTS

MAX_ROW = 100_000
"""Largest number of lines in a row of a table."""
_WORD = ("word", "token", "form")
_WORDS, _TAGS = ("words", "tokens"), ("tags", "labels")
"""Names of columns of single words and tags too, if another column numbers sentences."""
_LABEL = ("type", "label", "class", "category")
_SENTENCE = re.compile("sent(ence)?([ _]?(#|id|no|number))?")


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    """Yield the records of a CSV file, see above."""
    path, rows = sample.path, Rows(sample.path, reading.advance)
    header = [name.strip().lower() for name in read_first_row(path, rows)]
    check_names(path, header)
    words, tags = _find_words(header)
    if len(words) == len(tags) == 1:
        if reading.word_column or reading.tag_column or reading.ent_columns:
            raise ValueError(f"{path}: the header names the columns; leave out their numbers")
        sentences = _read_words(path, header, rows, (words[0], tags[0]), reading)
        head = list(islice(sentences, N_LINES))
        known = [tag for sentence in head for tag in sentence.entities if tag is not None]
        form = find_form(known)
        if form is not None and form.kind == "bare" and (labels := {*_LABEL} & {*header}):
            raise ValueError(
                f"{path}: column {tags[0]!r} has prefixes alone, apart from {labels.pop()!r}; "
                "expected one column of tags such as B-PER"
            )
        yield from make_records(chain(head, sentences), reading, known)
        return
    if header and not {"text", "tokens", "words", *TEXTS} & {*header}:
        raise CorpusError(
            f"{path}:1: no column text, tokens, or word and tag among {', '.join(header)}; "
            "expected a header, and a comma, ;, | or tab between the columns"
        )
    items = _read_items(path, header, rows)
    first = list(islice(items, N_LINES))
    objects = [item.value for item in first if isinstance(item.value, dict)]
    yield from read_fields(chain(first, items), path, objects, reading)


def recognize(sample: Sample) -> bool:
    """Return whether TSV has rows of words whose header names a column of sentences."""
    header = [name.strip().lower() for name in sample.first.split("\t")]
    is_split = any(map(_SENTENCE.fullmatch, header))
    return is_split and [*map(len, _find_words(header))] == [1, 1]


def _find_words(header: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of columns of words, and of their entity tags."""
    is_split = any(map(_SENTENCE.fullmatch, header))
    tags = [
        name
        for name in header
        if ENTITY.fullmatch(name) or name == "tag" or (is_split and name in _TAGS)
    ]
    return [n for n in header if n in _WORD or (is_split and n in _WORDS)], tags


def _read_items(path: Path, header: list[str], rows: "Rows") -> Iterator[Item]:
    """Yield rows as objects. Empty cells are left out, and tokens are read from their text."""
    for number, row in rows:
        place = f"{path}:{number}"
        if problem := _find_problem(header, row):
            yield Item(place, Problem("no CSV", problem))
        elif row:
            cells: dict[str, Any] = {
                key: x for key, x in zip(header, row, strict=True) if x and key
            }
            lists = {key: parse_value(cells[key]) for key in ("tokens", "words") if key in cells}
            yield Item(place, cells | lists)


def _read_words(
    path: Path, header: list[str], rows: "Rows", names: tuple[str, str], reading: Reading
) -> Iterator[Sentence]:
    word, tag = map(header.index, names)
    number_of = next((i for i, name in enumerate(header) if _SENTENCE.fullmatch(name)), None)
    pos = header.index("pos") if "pos" in header else None
    sentence, last, error, n_sentences = Sentence(), "", None, 0
    for number, row in chain(rows, [(0, [])]):
        line = Line(path, number, ",".join(row))
        problem = _find_problem(header, row)
        cells = [] if problem else row
        mark = cells[number_of] if cells and number_of is not None else ""
        if problem is None and (not any(cells) or mark not in ("", last)):
            if error is not None:
                skip_sentence(reading, error)
            elif sentence.words:
                yield sentence
                n_sentences += 1
            sentence, error = Sentence(), None
        last = mark or last
        if problem is not None:
            error = error or line.error(problem)
        elif any(cells):
            sentence.lines.append(line)
            sentence.words.append(row[word])
            sentence.tags.append(None if pos is None else row[pos] or None)
            sentence.pos.append(None)
            sentence.entities.append(None if row[tag] in MISSING else row[tag])
    if number_of is None and n_sentences == 1:
        reading.report(
            f"{path}: no column of sentences and no blank row, so all words are one sentence"
        )


def _find_problem(header: list[str], row: list[str] | str) -> str | None:
    if isinstance(row, str):
        return row
    is_right = not row or len(row) == len(header)
    return None if is_right else f"{len(row)} fields under a header of {len(header)}"


def read_texts(path: Path, columns: TextColumns, advance: Advance) -> Iterator[TextItem]:
    rows = Rows(path, advance)
    header = read_first_row(path, rows)
    if not header:
        return
    check_header(path, header, columns)
    check_names(path, header)
    for number, row in rows:
        place = f"{path}:{number}"
        if problem := _find_problem(header, row):
            yield Rejected(place, place, problem)
        elif row:
            fields = dict(zip(header, row, strict=True))
            tokens = fields.pop("tokens", None)  # a string, not a list as in JSON
            item = read_text_fields(fields, place, columns)
            if tokens is not None and isinstance(item, TextRecord):
                item.meta["tokens"] = tokens
            yield item


class Rows:
    """The rows of a table with the number of their first line, or the problem of a bad line.

    The next row starts at the line after a bad line, so an open quote hides no other row.
    """

    def __init__(self, path: Path, advance: Advance = lambda n_bytes: None) -> None:
        csv.field_size_limit(MAX_LINE)
        self._kind = text_suffix(path)
        self._lines = scan_lines(path, advance)
        self._again: deque[Line] = deque()
        self._row: list[Line] = []

    @property
    def source(self) -> str:
        """The lines of the last row, as the file has them."""
        return "".join(line.source for line in self._row)

    def __iter__(self) -> Iterator[tuple[int, list[str] | str]]:
        # Unless strict, an open quote would silently hide all rows after it.
        for line in self._lines:
            self._again.append(line)
            if line.text or line.problem:
                break
        head = "".join(line.text for line in self._again)
        new = partial(csv.reader, delimiter=find_delimiter(self._kind, head), strict=True)
        reader = new(iter(self._next_line, None))
        while True:
            self._row.clear()
            try:
                row = next(reader, None)
            except csv.Error as error:
                first, *others = self._row
                del self._row[1:]
                self._again.extendleft(reversed(others))
                reader = new(iter(self._next_line, None))
                yield first.number, f"no CSV: {error}"
            else:
                if row is None:
                    return
                yield self._row[0].number, row

    def _next_line(self) -> str | None:
        """Return the next line, None at the end. csv.Error for a line that cannot be read."""
        line = self._again.popleft() if self._again else next(self._lines, None)
        if line is None:
            return None
        self._row.append(line)
        if line.problem or len(self._row) > MAX_ROW:
            raise csv.Error(line.problem or f"a row of more than {MAX_ROW:,} lines")
        return line.text + (line.around[1] or "\n")


def find_delimiter(kind: str, head: str) -> str:
    """Return the delimiter of a table. kind: `.csv` or `.tsv`. head: the first line of its header.

    The most frequent of the signs outside of quotes, and of equally many the first one of `,;|`.
    """
    outside = re.sub(r'"[^"]*("|$)', "", head)
    return "\t" if kind == ".tsv" else max(",;|\t", key=outside.count)


def read_header(path: Path) -> list[str]:
    """Return the names of the columns, see `read_first_row`."""
    return read_first_row(path, Rows(path))


def read_first_row(path: Path, rows: Rows) -> list[str]:
    """Return the first row that is not blank, empty without one. CorpusError for a bad row."""
    number, header = next((row for row in rows if row[1]), (1, []))
    if isinstance(header, str):
        raise CorpusError(f"{path}:{number}: {header}")
    return header


def check_names(path: Path, header: Sequence[str]) -> None:
    if twice := [name for i, name in enumerate(header) if name in header[:i]]:
        raise ValueError(f"{path}: two columns of the header have the name {twice[0]!r}")


def check_header(path: Path, header: Iterable[str], columns: TextColumns) -> None:
    if columns.text not in header:
        raise ValueError(
            f"{path}: no column {columns.text!r} among {', '.join(header)}; expected one, or "
            "another `text_column`"
        )
