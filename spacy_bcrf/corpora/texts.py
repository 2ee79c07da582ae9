"""Texts without annotation, from files of all formats, one record at a time."""

from __future__ import annotations

import csv
import glob
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.strings import StringStore
from spacy.tokens import Doc, DocBin

from spacy_bcrf.io.extras import require
from spacy_bcrf.io.json_objects import Problem, read_objects
from spacy_bcrf.io.remote import find_below, glob_files, is_remote, make_path
from spacy_bcrf.io.text import (
    MAX_LINE,
    CorpusError,
    open_decompressed,
    read_lines,
    text_suffix,
)

from .formats.jsonl import read_record
from .record import Record, make_doc

ID_KEY, META_KEY = "id", "meta"
"""Keys of `Doc.user_data` for the id of a document, and for its meta data as JSON text."""

MAX_DEPTH = 100
"""Largest depth of nested meta data. Python cannot write much deeper values, nor send them."""


class TextColumns(NamedTuple):
    """Where a record has its text.

    text, id: names of columns. whole_files: whether a `.txt` file is one document, not one a line.
    """

    text: str = "text"
    id: str = "id"
    whole_files: bool = False


@dataclass(slots=True)
class TextRecord:
    """One document to annotate: a text, its words, or both.

    id: the value of the id column, or the place. place: file and line, or file and row from 1.
    spaces: whether a space follows each word. meta: all other columns, as JSON values; of Parquet
    as the Python values of their types.
    """

    id: str | int
    place: str
    text: str | None
    words: list[str] | None = None
    spaces: list[bool] | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def n_characters(self) -> int:
        """The number of characters, without spaces between words if only these are known."""
        return len(self.text) if self.text is not None else sum(map(len, self.words or ()))

    def make_doc(self, nlp: Language) -> Doc:
        """Tokenize the text. Given words stay. ValueError if it is too long, or has other words."""
        if self.spaces is not None:
            return Doc(nlp.vocab, words=self.words, spaces=self.spaces)
        record = Record([self.place], self.text, self.words, [], [], None, complete=False)
        return make_doc(record, nlp)


class Rejected(NamedTuple):
    """A record that is no document, and why."""

    id: str | int
    place: str
    reason: str


Item = TextRecord | Rejected
Advance = Callable[[int], object]
"""Receives the number of bytes read since its last call."""


# Finding files


def find_inputs(inputs: Sequence[str], output: Path | None = None) -> tuple[list[Path], int]:
    """Return the files of paths, folders, globs and URLs, and the number of other files in folders.

    The files of a folder or glob are sorted, without files of `output` and names that start with a
    dot. output: the absolute path of a folder that a run writes to.

    ValueError for a path that does not exist or is in `output`, for an unknown extension and for a
    file that is given twice.
    """

    def is_output(path: Path) -> bool:
        return type(path) is type(output) and path.resolve().is_relative_to(output)

    files: list[Path] = []
    n_skipped = 0
    for name in inputs:
        path = make_path(name)
        if is_output(path):
            raise ValueError(f"{name}: is in the folder of the output, {output}")
        if path.is_dir():
            below = [file for file in _files_below(path) if not is_output(file)]
            found = [file for file in below if text_suffix(file) in _READERS]
            n_skipped += len(below) - len(found)
            if not found:
                raise ValueError(f"{name}: the folder has no file with one of {KNOWN}")
        elif path.exists():
            found = [path]
        else:
            if is_remote(path):
                matches = glob_files(path)
            else:
                globbed = map(Path, sorted(glob.glob(name, recursive=True)))  # noqa: PTH207 (absolute)
                matches = [match for match in globbed if match.is_file()]
            found = [file for file in matches if not is_output(file)]
            if not found:
                raise ValueError(f"{name}: there is no such file or folder, and no file matches")
        files += found
    for file in files:
        if text_suffix(file) not in _READERS:
            raise ValueError(
                f"{file}: unknown extension {text_suffix(file)!r}; expected one of {KNOWN}, plain "
                "or compressed"
            )
    seen: set[Path] = set()
    for file in files:
        if (resolved := file.resolve()) in seen:
            raise ValueError(f"{file}: is given twice; expected each input once")
        seen.add(resolved)
    return files, n_skipped


def _files_below(folder: Path) -> list[Path]:
    return [
        path
        for path in find_below(folder)
        if not any(part[0] == "." for part in path.relative_to(folder).parts)
    ]


# Reading


def read_records(
    path: Path,
    columns: TextColumns = TextColumns(),  # noqa: B008 (immutable)
    advance: Advance = lambda n_bytes: None,
) -> Iterator[Item]:
    """Yield the records of a file in its order, with a bounded part of it in memory.

    Of a `.spacy` file all documents are in memory, of a Parquet file a batch of rows.

    - `.txt`: one text on each line that is not blank, or one in the file.
    - `.jsonl`, `.ndjson`, `.json`: objects with a text, `tokens` or both.
    - `.csv`, `.tsv`: rows under a header. A line break within quotes is a line feed.
    - `.parquet`: rows; needs the extra `parquet`.
    - `.spacy`: words and spaces. Annotation is dropped; `user_data` keeps id and meta data.

    CorpusError for content that cannot be read further, UnreadableError if the system cannot read
    the file. ValueError if a table has no column of texts.
    """
    read = _READERS.get(text_suffix(path))
    if read is None:
        raise ValueError(
            f"{path}: unknown extension {text_suffix(path)!r}; expected one of {KNOWN}"
        )
    yield from read(path, columns, advance)


def _read_text(path: Path, columns: TextColumns, advance: Advance) -> Iterator[Item]:
    if not columns.whole_files:
        for line in read_lines(path, advance):
            if line.text.strip():
                place = f"{path}:{line.number}"
                yield TextRecord(place, place, line.text)
        return
    with open_decompressed(path) as stream:
        data = stream.read(MAX_LINE + 1)
    if len(data) > MAX_LINE:
        raise CorpusError(f"{path}: has more than {MAX_LINE >> 20} MiB; expected one document")
    try:
        yield TextRecord(str(path), str(path), data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: byte {error.start} is not UTF-8") from None
    advance(path.stat().st_size)


def _read_json(path: Path, columns: TextColumns, advance: Advance) -> Iterator[Item]:
    for place, value in read_objects(path, advance):
        if isinstance(value, Problem):
            yield Rejected(place, place, str(value))
        else:
            yield _read_fields(value, place, columns)


def _read_fields(fields: dict[str, Any], place: str, columns: TextColumns) -> Item:
    """Read the fields of an object. Its tokens are in `tokens`, its meta data in all others."""
    key = fields.pop(columns.id, None)
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        return Rejected(place, place, f'"{columns.id}" must be a string or an integer, got {key!r}')
    name = place if key is None else key
    names = (("text", columns.text), ("tokens", "tokens"))
    given = {key: fields.pop(column) for key, column in names if column in fields}
    try:
        record = read_record(given, place)
    except Problem as problem:
        return Rejected(name, place, str(problem))
    if _is_too_deep(fields):
        return Rejected(name, place, f"values are nested more than {MAX_DEPTH} levels deep")
    return TextRecord(name, place, record.text, record.words, meta=fields)


def _is_too_deep(fields: dict[str, Any]) -> bool:
    level: list[Any] = [fields]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _read_table(path: Path, columns: TextColumns, advance: Advance) -> Iterator[Item]:
    rows = _read_rows(path, advance)
    try:
        header = next(rows, None)
        if header is None:
            return
        _check_header(path, header, columns)
        if len(set(header)) < len(header):
            raise ValueError(f"{path}: two columns of the header have the same name")
        for row in rows:
            place = f"{path}:{rows.line_num}"
            if len(row) == len(header):
                fields = dict(zip(header, row, strict=True))
                tokens = fields.pop("tokens", None)  # a string, not a list as in JSON
                item = _read_fields(fields, place, columns)
                if tokens is not None and isinstance(item, TextRecord):
                    item.meta["tokens"] = tokens
                yield item
            elif row:
                yield Rejected(place, place, f"{len(row)} fields under a header of {len(header)}")
    except csv.Error as error:
        raise CorpusError(f"{path}:{rows.line_num}: no CSV: {error}") from None


def _read_rows(path: Path, advance: Advance = lambda n_bytes: None) -> Any:
    csv.field_size_limit(MAX_LINE)
    delimiter = "\t" if text_suffix(path) == ".tsv" else ","
    lines = (line.text + "\n" for line in read_lines(path, advance))
    # Unless strict, an open quote would silently hide all rows after it.
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _check_header(path: Path, header: Iterable[str], columns: TextColumns) -> None:
    if columns.text not in header:
        raise ValueError(
            f"{path}: no column {columns.text!r}; --text-column names one of {', '.join(header)}"
        )


def _read_parquet(path: Path, columns: TextColumns, advance: Advance) -> Iterator[Item]:
    parquet = require("pyarrow.parquet", "parquet")
    errors = require("pyarrow.lib", "parquet").ArrowException
    if path.suffix != ".parquet":
        raise ValueError(f"{path}: Parquet is compressed within; decompress the file first")
    size = path.stat().st_size
    with open_decompressed(path) as raw:  # OSError names the file
        try:
            file = parquet.ParquetFile(raw)
            _check_header(path, file.schema_arrow.names, columns)
            number = 0
            for batch in file.iter_batches(1000):
                for fields in _rows_of(batch):
                    number += 1
                    place = f"{path}:{number}"
                    if isinstance(fields, Exception):
                        yield Rejected(place, place, f"cannot be read: {fields}")
                        continue
                    for name in {columns.id, columns.text, "tokens"} & fields.keys():
                        fields[name] = as_json(fields[name])
                    yield _read_fields(fields, place, columns)
                advance(size * batch.num_rows // file.metadata.num_rows)
        except errors as error:
            raise CorpusError(f"{path}: cannot be read as Parquet: {error}") from None


def _rows_of(batch: Any) -> Iterator[dict[str, Any] | Exception]:
    """Yield the rows of an Arrow batch, or the error of a row that has no Python values.

    Python has no nanoseconds and no years after 9999, and broken content may be no UTF-8.
    """
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError) as error:
        if batch.num_rows == 1:
            yield error
            return
        half = batch.num_rows // 2
        rows = chain(_rows_of(batch.slice(0, half)), _rows_of(batch.slice(half)))
    yield from rows


def read_schema(path: Path, columns: TextColumns) -> dict[str, Any] | None:
    """Return the Arrow types of the meta columns of a table, None for a file without columns.

    CorpusError if the file cannot be read.
    """
    if text_suffix(path) == ".parquet":
        parquet = require("pyarrow.parquet", "parquet")
        errors = require("pyarrow.lib", "parquet").ArrowException
        with open_decompressed(path) as raw:
            try:
                schema = parquet.read_schema(raw)
            except errors as error:
                raise CorpusError(f"{path}: cannot be read as Parquet: {error}") from None
        types = dict(zip(schema.names, schema.types, strict=True))
        read = {columns.text, columns.id, "tokens"}
    elif text_suffix(path) in (".csv", ".tsv"):
        string = require("pyarrow", "parquet").string()
        types = dict.fromkeys(next(_read_rows(path), ()), string)
        read = {columns.text, columns.id}
    else:
        return None
    return {name: each for name, each in types.items() if name not in read}


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: other types as strings, NaN and infinity as null."""
    if isinstance(value, dict):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def _read_docs(path: Path, columns: TextColumns, advance: Advance) -> Iterator[Item]:
    import srsly

    with open_decompressed(path) as stream:
        data = stream.read()
    try:
        docs = DocBin(store_user_data=True).from_bytes(data)
        strings = StringStore(docs.strings)
        orth = docs.attrs.index(ORTH)
        for i, (tokens, spaces, user_data) in enumerate(
            zip(docs.tokens, docs.spaces, docs.user_data, strict=True)
        ):
            place = f"{path}:{i + 1}"
            words = [strings[word] for word in tokens[:, orth].tolist()]
            kept = {} if user_data is None else srsly.msgpack_loads(user_data, use_list=False)
            key, meta = kept.get(ID_KEY, place), kept.get(META_KEY, "{}")
            yield TextRecord(key, place, None, words, spaces.ravel().tolist(), json.loads(meta))
    except CorpusError:
        raise
    except Exception as error:  # zlib, msgpack and spaCy raise different types
        raise CorpusError(f"{path}: cannot be read as a .spacy file: {error}") from error
    advance(path.stat().st_size)


_READERS: dict[str, Callable[[Path, TextColumns, Advance], Iterator[Item]]] = {
    ".txt": _read_text,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".json": _read_json,
    ".csv": _read_table,
    ".tsv": _read_table,
    ".parquet": _read_parquet,
    ".spacy": _read_docs,
}
KNOWN = ", ".join(_READERS)
"""The extensions of readable files."""
