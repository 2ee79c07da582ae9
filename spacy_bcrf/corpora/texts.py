"""Texts without annotation, from files of all formats, one record at a time."""

import csv
import glob
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import srsly
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.strings import StringStore
from spacy.tokens import Doc

from bcrf.io.extras import require
from bcrf.io.json_objects import Problem, parse_object, read_objects
from bcrf.io.text import MAX_LINE, CorpusError, Line, open_decompressed, scan_lines, text_suffix
from spacy_bcrf.corpora import remote
from spacy_bcrf.corpora.doc_files import load_docs, naming_damaged

from .formats.brat import has_annotation
from .formats.jsonl import read_record
from .make_doc import tokenize
from .record import Record

ID_KEY, META_KEY = "id", "meta"
"""Keys of `Doc.user_data` for the id of a document, and for its meta data as JSON text."""

MAX_DEPTH = 100
"""Largest depth of nested meta data. Python cannot write much deeper values, nor send them."""
CONTAINER = 16
"""Memory of a list, an object or a number in meta data, in characters."""
MAX_META = 2 * MAX_LINE
"""Largest meta data of a record, in characters: small JSON can hold very many empty lists."""
MAX_ID = 1000
"""Longest id in characters. The log of progress keeps the ids of failed documents."""
MAX_ROW = 100_000
"""Largest number of lines in a row of a table."""
BATCH_BYTES = 64 << 20
"""Largest size of the rows of a Parquet file that are in memory together, about."""


class TextColumns(NamedTuple):
    """Names of the columns of text and id. whole_files: a `.txt` file is one document."""

    text: str = "text"
    id: str = "id"
    whole_files: bool = False


@dataclass(slots=True)
class TextRecord:
    """One document to annotate: a text, its words, or both.

    id: of the id column, else the place. place: file and line, or row from 1. spaces: after words.
    meta: all other columns, as JSON values, of Parquet as Python's. meta_size: in characters.
    """

    id: str | int
    place: str
    text: str | None
    words: list[str] | None = None
    spaces: list[bool] | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    meta_size: int = 0

    @property
    def n_characters(self) -> int:
        """The memory of the record, in characters of its text, words and meta data."""
        return len(self.text or "") + sum(map(len, self.words or ())) + self.meta_size

    def make_doc(self, nlp: Language) -> Doc:
        """Tokenize the text. Given words stay. ValueError if it is too long, or has other words."""
        return tokenize(Record([self.place], self.text, self.words, [], spaces=self.spaces), nlp)


class Rejected(NamedTuple):
    """A record without annotation, and why. unread: rest of a file. empty: of an empty text."""

    id: str | int
    place: str
    reason: str
    unread: bool = False
    empty: TextRecord | None = None


Item = TextRecord | Rejected
Advance = Callable[[int], object]
"""Receives the number of bytes read since its last call."""


def find_inputs(inputs: Sequence[str], output: Path | None = None) -> tuple[list[Path], int]:
    """Return the files of paths, folders, globs and URLs, and the number of other files in folders.

    Files of a folder or glob are sorted, without dot files and those of `output`, an absolute path.
    ValueError for a path that is missing or in `output`, an unknown extension, and repeated files.
    """
    files: list[Path] = []
    n_skipped = 0
    for name in inputs:
        try:
            found, n_others = _find_input(name, output)
        except remote.path_errors() as error:
            raise ValueError(f"{name}: cannot be read: {remote.describe(error)}") from None
        files += found
        n_skipped += n_others
    seen: set[Path] = set()
    for file in files:
        _find_reader(file)
        if (resolved := file.resolve()) in seen:
            raise ValueError(f"{file}: is given twice; expected each input once")
        seen.add(resolved)
    return files, n_skipped


def _find_input(name: str, output: Path | None) -> tuple[list[Path], int]:
    """Return the files of a path, folder, glob or URL, and the number of a folder's other files."""

    def is_output(path: Path) -> bool:
        return type(path) is type(output) and path.resolve().is_relative_to(output)

    path = remote.make_path(name)
    if is_output(path):
        raise ValueError(f"{name}: is in the folder of the output, {output}")
    if path.is_file():
        return [path], 0
    if path.is_dir():
        below = [
            file
            for file in remote.find_below(path)
            if not (is_output(file) or any(x[0] == "." for x in file.relative_to(path).parts))
        ]
        found = [file for file in below if text_suffix(file) in _READERS]
        if not found:
            raise ValueError(f"{name}: the folder has no file with one of {KNOWN}")
        return found, len(below) - len(found)
    if path.exists():
        raise ValueError(f"{name}: is a device or a pipe; expected a regular file")
    if remote.is_remote(path):
        matches = remote.glob_files(path)
    else:
        globbed = map(Path, sorted(glob.glob(name, recursive=True)))  # noqa: PTH207 (absolute)
        matches = [match for match in globbed if match.is_file()]
    found = [file for file in matches if not is_output(file)]
    if not found:
        raise ValueError(f"{name}: there is no such file or folder, and no file matches")
    return found, 0


def read_records(
    path: Path,
    columns: TextColumns = TextColumns(),  # noqa: B008 (immutable)
    advance: Advance = lambda n_bytes: None,
) -> Iterator[Item]:
    """Yield the records of a file in its order, with a bounded part of it in memory.

    Of a `.spacy` file all documents are in memory, of a Parquet file a batch of rows.

    - `.txt`: one text on each line that is not blank, or one in the file, as beside `.ann`.
    - `.jsonl`, `.ndjson`, `.json`: objects with a text, `tokens` or both.
    - `.csv`, `.tsv`: rows under a header. A line break within quotes is a line feed.
    - `.parquet`: rows; needs the extra `parquet`.
    - `.spacy`: words and spaces. Annotation is dropped; `user_data` keeps id and meta data.

    CorpusError for content that cannot be read further, UnreadableError if the system cannot read
    the file. ValueError if a table has no column of texts.
    """
    yield from _find_reader(path)(path, columns, advance)


def _find_reader(path: Path) -> "Reader":
    if (suffix := text_suffix(path)) not in _READERS:
        raise ValueError(
            f"{path}: unknown extension {suffix!r}; expected one of {KNOWN}, plain or compressed"
        )
    return _READERS[suffix]


def _read_text(path: Path, columns: TextColumns, advance: Advance) -> Iterator[Item]:
    if not (columns.whole_files or has_annotation(path)):
        for line in scan_lines(path, advance):
            place = f"{path}:{line.number}"
            if line.problem is not None:
                yield Rejected(place, place, line.problem)
            elif line.text.strip():
                yield TextRecord(place, place, line.text)
        return
    name = str(path)
    with open_decompressed(path) as stream:
        data = stream.read(MAX_LINE + 1)
    if len(data) > MAX_LINE:
        reason = f"has more than {MAX_LINE >> 20} MiB; expected one document"
        yield Rejected(name, name, reason)
        return
    try:
        yield TextRecord(name, name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        yield Rejected(name, name, f"byte {error.start} is not UTF-8")
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
    if reason := _check_id(key, columns.id):
        return Rejected(place, place, reason)
    name = place if key is None else key
    names = (("text", columns.text), ("tokens", "tokens"))
    given = {key: fields.pop(column) for key, column in names if column in fields}
    try:
        record = read_record(given, place)
        return TextRecord(name, place, record.text, record.words, None, *check_meta(fields))
    except Problem as problem:
        empty = None
        if given == {"text": ""}:
            with suppress(Problem):
                empty = TextRecord(name, place, "", None, None, *check_meta(fields))
        return Rejected(name, place, str(problem), empty=empty)


def _check_id(key: Any, name: str) -> str | None:
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        return f'"{name}" must be a string or an integer, got {repr(key)[:60]}'
    too_long = len(key) > MAX_ID if isinstance(key, str) else abs(key or 0) >= 10**MAX_ID
    return f'"{name}" has more than {MAX_ID:,} characters' if too_long else None


def check_meta(meta: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return meta data and its memory in characters. Problem if it is too deep or too large."""
    size = 0
    level: list[Any] = [meta]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str | bytes):
                size += len(value)
            else:
                size += CONTAINER
                if isinstance(value, dict):
                    inner += (*value, *value.values())
                elif isinstance(value, list):
                    inner += value
        if size + CONTAINER * len(inner) > MAX_META:
            raise Problem("too large", f"meta data of more than {MAX_META:,} characters")
        if not inner:
            return meta, size
        level = inner
    raise Problem("too deep", f"values are nested more than {MAX_DEPTH} levels deep")


def _read_table(path: Path, columns: TextColumns, advance: Advance) -> Iterator[Item]:
    rows = _Rows(path, advance)
    header = _read_header(path, rows)
    if not header:
        return
    _check_header(path, header, columns)
    if len(set(header)) < len(header):
        raise ValueError(f"{path}: two columns of the header have the same name")
    for number, row in rows:
        place = f"{path}:{number}"
        if isinstance(row, str):
            yield Rejected(place, place, row)
        elif len(row) == len(header):
            fields = dict(zip(header, row, strict=True))
            tokens = fields.pop("tokens", None)  # a string, not a list as in JSON
            item = _read_fields(fields, place, columns)
            if tokens is not None and isinstance(item, TextRecord):
                item.meta["tokens"] = tokens
            yield item
        elif row:
            yield Rejected(place, place, f"{len(row)} fields under a header of {len(header)}")


class _Rows:
    """The rows of a table with the number of their first line, or the problem of a bad line.

    The next row starts at the line after a bad line, so an open quote hides no other row.
    """

    def __init__(self, path: Path, advance: Advance = lambda n_bytes: None) -> None:
        csv.field_size_limit(MAX_LINE)
        self._delimiter = "\t" if text_suffix(path) == ".tsv" else ","
        self._lines = scan_lines(path, advance)
        self._again: deque[Line] = deque()
        self._row: list[Line] = []

    def __iter__(self) -> Iterator[tuple[int, list[str] | str]]:
        # Unless strict, an open quote would silently hide all rows after it.
        new = partial(csv.reader, delimiter=self._delimiter, strict=True)
        reader = new(iter(self._next_line, None))
        while True:
            self._row.clear()
            try:
                row = next(reader, None)
            except csv.Error as error:
                first, *others = self._row
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
        return line.text + "\n"


def _read_header(path: Path, rows: _Rows) -> list[str]:
    """Return the first row of a table, empty for an empty file. CorpusError for a bad row."""
    number, header = next(iter(rows), (1, []))
    if isinstance(header, str):
        raise CorpusError(f"{path}:{number}: {header}")
    return header


def _check_header(path: Path, header: Iterable[str], columns: TextColumns) -> None:
    if columns.text not in header:
        raise ValueError(
            f"{path}: no column {columns.text!r} among {', '.join(header)}; `annotate` has "
            "--text-column"
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
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            n_rows, n_bytes = file.metadata.num_rows, sum(each.total_byte_size for each in groups)
            size_of_batch = min(1000, max(1, BATCH_BYTES * n_rows // max(1, n_bytes)))
            for batch in file.iter_batches(size_of_batch):
                for fields in _rows_of(batch):
                    number += 1
                    place = f"{path}:{number}"
                    if isinstance(fields, Exception):
                        yield Rejected(place, place, f"cannot be read: {fields}")
                        continue
                    for name in {columns.id, columns.text, "tokens"} & fields.keys():
                        fields[name] = as_json(fields[name])
                    yield _read_fields(fields, place, columns)
                advance(size * batch.num_rows // n_rows)
        except errors as error:
            raise CorpusError(f"{path}: cannot be read as Parquet: {error}") from None


def _rows_of(batch: Any) -> Iterator[dict[str, Any] | Exception]:
    """Yield the rows of an Arrow batch, or the error of a row without Python values."""
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
    """Return the Arrow types of a table's meta columns, None without columns. CorpusError."""
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
        types = dict.fromkeys(_read_header(path, _Rows(path)), string)
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
    with naming_damaged(path):
        docs = load_docs(path)
        strings = StringStore(docs.strings)
        orth = docs.attrs.index(ORTH)
        parts = list(zip(docs.tokens, docs.spaces, docs.user_data, strict=True))
    for i, (tokens, spaces, user_data) in enumerate(parts):
        place = f"{path}:{i + 1}"
        try:
            words = [strings[word] for word in tokens[:, orth].tolist()]
            yield _read_user_data(user_data, place, words, spaces.ravel().tolist())
        except Exception as error:
            yield Rejected(place, place, f"cannot be read: {error}")
    advance(path.stat().st_size)


def _read_user_data(data: bytes | None, place: str, words: list[str], spaces: list[bool]) -> Item:
    kept = {} if data is None else srsly.msgpack_loads(data, use_list=False)
    key = kept.get(ID_KEY, place)
    if reason := _check_id(key, ID_KEY):
        return Rejected(place, place, f"user_data: {reason}")
    try:
        meta = check_meta(parse_object(kept.get(META_KEY, "{}")))
    except Problem as problem:
        return Rejected(key, place, f'user_data["{META_KEY}"]: {problem}')
    return TextRecord(key, place, None, words, spaces, *meta)


Reader = Callable[[Path, TextColumns, Advance], Iterator[Item]]
_READERS: dict[str, Reader] = {
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
