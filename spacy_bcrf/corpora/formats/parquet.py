"""Parquet: rows of texts, and of documents with their annotation."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from bcrf.io.extras import require
from bcrf.io.text import CorpusError, open_decompressed
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.texts import Advance, Rejected, TextColumns, TextItem, as_json_values
from spacy_bcrf.corpora.writer import Row, Writer, dump_meta

from .arrow import read_batches, rows_of
from .jsonl import read_text_fields
from .tables import check_header

BATCH_BYTES = 64 << 20
"""Largest size of the rows of a Parquet file that are in memory together, about."""


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    """Yield the records of a file, whose rows have the fields of `jsonl`."""
    with open_batches(sample.path, reading.advance) as (schema, batches):
        yield from read_batches(sample.path, schema, batches, reading)


def read_texts(path: Path, columns: TextColumns, advance: Advance) -> Iterator[TextItem]:
    with open_batches(path, advance) as (schema, batches):
        if "tokens" not in schema.names:
            check_header(path, schema.names, columns)
        for number, fields in enumerate(chain.from_iterable(map(rows_of, batches)), 1):
            place = f"{path}:{number}"
            if isinstance(fields, Exception):
                yield Rejected(place, place, f"cannot be read: {fields}")
                continue
            for name in {columns.id, columns.text, "tokens"} & fields.keys():
                fields[name] = as_json_values(fields[name])
            yield read_text_fields(fields, place, columns)


@contextmanager
def open_batches(path: Path, advance: Advance) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Yield the Arrow schema and the batches of a file. CorpusError if it is not Parquet."""
    parquet = require("pyarrow.parquet", "parquet")
    errors = require("pyarrow.lib", "parquet").ArrowException
    if path.suffix != ".parquet":
        raise ValueError(f"{path}: Parquet is compressed within; decompress the file first")

    def read_batches() -> Iterator[Any]:
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        n_rows, n_bytes = file.metadata.num_rows, sum(each.total_byte_size for each in groups)
        for batch in file.iter_batches(min(1000, max(1, BATCH_BYTES * n_rows // max(1, n_bytes)))):
            yield batch
            advance(path.stat().st_size * batch.num_rows // n_rows)

    with open_decompressed(path) as raw:  # OSError names the file
        try:
            file = parquet.ParquetFile(raw)
            yield file.schema_arrow, read_batches()
        except errors as error:
            raise CorpusError(f"{path}: cannot be read as Parquet: {error}") from None


def read_schema(path: Path) -> Any:
    """Return the Arrow schema of a file. CorpusError if it is not Parquet."""
    errors = require("pyarrow.lib", "parquet").ArrowException
    with open_decompressed(path) as raw:
        try:
            return require("pyarrow.parquet", "parquet").read_schema(raw)
        except errors as error:
            raise CorpusError(f"{path}: cannot be read as Parquet: {error}") from None


class ParquetWriter(Writer):
    """Columns of `make_schema`. The column meta has the JSON text of values without a column."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        schema = require("pyarrow", "parquet").schema
        self._meta = read_meta_columns(self.meta) if self.meta else schema([])
        self._rows: list[dict[str, Any]] = []

    def add(self, row: Row) -> None:
        """Add a row to the only table of the file."""
        names = ("spans", *self.optional)
        fields = {name: getattr(row.predictions, name) for name in names}
        columns, others = split_meta(self._meta, row.meta)
        # Arrow would fail at the end, for all rows.
        "".join((str(row.id), *(v for v in columns.values() if isinstance(v, str)))).encode()
        meta = dump_meta(others) if others else None
        self._rows.append({"id": str(row.id), "text": row.text, **fields, **columns, "meta": meta})

    def finish(self) -> None:
        pa = require("pyarrow", "parquet")
        schema = make_schema(pa, self.optional, self._meta)
        table = pa.Table.from_pylist(self._rows, schema=schema)
        require("pyarrow.parquet", "parquet").write_table(table, self.file)


def make_schema(pa: Any, optional: tuple[str, ...], meta: Any) -> Any:
    """Return the Arrow schema of all shards. pa: the module pyarrow. meta: of the meta columns."""
    bounds = [("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]
    spans = pa.list_(pa.struct([("pipe", pa.string()), *bounds, ("probability", pa.float64())]))
    labelings = [("probability", pa.float64()), ("spans", pa.list_(pa.struct(bounds)))]
    types = {"alternatives": pa.list_(pa.struct([("pipe", pa.string()), *labelings]))}
    columns = [("id", pa.string()), ("text", pa.string())]
    columns += [(name, types.get(name, spans)) for name in ("spans", *optional)]
    return pa.schema([*columns, *meta, ("meta", pa.string())])


def read_meta_columns(schema: bytes) -> Any:
    pa = require("pyarrow", "parquet")
    return pa.ipc.read_schema(pa.py_buffer(schema))


def split_meta(schema: Any, meta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that fit the columns of an Arrow schema without conversion, and others."""
    pa = require("pyarrow", "parquet")
    fitting: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in meta.items():
        i = schema.get_field_index(name)
        fits = False
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            stored = pa.scalar(value, schema.field(i).type).as_py() if i >= 0 else None
            # NaN is not equal to itself, and True is equal to 1.
            same = repr(stored) == repr(value) or (type(value) is int and stored == value)
            fits = i >= 0 and same
        (fitting if fits else others)[name] = value
    return fitting, others
