"""Columns of Arrow, pandas, Polars and Parquet: redacted and restored, with a verdict on each.

A row is one document: a JSON object of its texts, also of those in lists and structs. All other
values stay.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language

from bcrf.io.extras import require
from spacy_bcrf.corpora.formats.arrow import rows_of
from spacy_bcrf.corpora.formats.parquet import open_batches
from spacy_bcrf.corpora.formats.tables import check_names
from spacy_bcrf.pipeline.predict_in_parts import predict_in_parts
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.promises.risk import binomial_interval
from spacy_bcrf.result import Result

from .documents import read_document
from .nodes import Bounds
from .redact import Redactor
from .replacer import Replacer
from .vault import Vault


class ColumnVerdict(NamedTuple):
    """How much personal data a column has.

    texts, private: rows with a text, and with a replacement in it. low, high: the 95% interval of
    the share of private rows among such rows, if these are a random sample (Clopper and Pearson).
    """

    column: str
    texts: int
    private: int
    low: float
    high: float


@dataclass(repr=False)
class RedactedColumns(Result):
    """table: a new one, of the kind that was given. left: see `Redacted`, a number of places."""

    table: Any = field(repr=False)
    columns: list[ColumnVerdict]
    left: int

    def rows(self) -> list[tuple[str, ...]]:
        header = "column", "rows with a text", "with personal data", "95% interval"
        return [header, *(_show(*verdict) for verdict in self.columns)]


def _show(column: str, texts: int, private: int, low: float, high: float) -> tuple[str, ...]:
    share = f"{private:,}, {100 * private / max(1, texts):.1f}%"
    return column, f"{texts:,}", share, f"{100 * low:.1f} to {100 * high:.1f}%"


def redact_columns(
    nlp: Language,
    table: Any,
    columns: Sequence[str] | None = None,
    pipe: str | None = None,
    *,
    style: str = "label",
    threshold: float | None = None,
    promise: str | None = None,
    key: bytes = b"",
    vault: Vault | None = None,
) -> RedactedColumns:
    """Redact a table of Arrow, pandas or Polars, except an index. Needs the extra `parquet`.

    columns: of texts, by default all. Further options: see `redact`. ValueError for another column,
    and for a row that cannot be redacted; TypeError for what is no table.
    """
    pa = require("pyarrow", "parquet")
    is_frame = hasattr(table, "iloc")
    if not (is_frame or hasattr(table, "schema")):
        raise TypeError(f"expected a table of Arrow, pandas or Polars, got {type(table).__name__}")
    arrow = pa.Table.from_pandas(table, preserve_index=False) if is_frame else pa.table(table)
    names = _find_columns(arrow.schema)
    if unknown := [name for name in columns or () if name not in names]:
        raise ValueError(
            f"{unknown[0]}: no such column of texts; expected {', '.join(names) or 'none'}"
        )
    chosen = list(names if columns is None else columns)
    replacer = Replacer(style, key, vault)
    redactor = Redactor(nlp, pipe, replacer, threshold=threshold, promise=promise)
    values: dict[str, list[Any]] = {name: [] for name in chosen}
    counts, n_left = {name: [0, 0] for name in chosen}, 0
    for start in range(0, arrow.num_rows, BATCH_SIZE):
        rows = arrow.select(chosen).slice(start, BATCH_SIZE).to_pylist()
        found = predict_in_parts(lambda some: _redact_rows(redactor, some), rows)
        for number, one in enumerate(found, start + 1):
            if isinstance(one, Exception):
                raise ValueError(f"row {number}: {one}") from one
            new, is_private, left = one
            n_left += left
            for name, value in new.items():
                values[name].append(value)
            for name, found_in in is_private.items():
                counts[name][0] += 1
                counts[name][1] += found_in
    for name in chosen:
        at = arrow.schema.get_field_index(name)
        table = _replace_column(table, at, _make_array(values[name], arrow.schema.field(at)))
    verdicts = [ColumnVerdict(x, n, k, *_bound(k, n)) for x, (n, k) in counts.items()]
    return RedactedColumns(table, verdicts, n_left)


def _bound(private: int, texts: int) -> tuple[float, float]:
    return binomial_interval(private, texts) if texts else (0.0, 1.0)


def _redact_rows(
    redactor: Redactor, rows: Sequence[dict[str, Any]]
) -> list[tuple[dict[str, Any], dict[str, bool], int]]:
    """Return new rows, whether each text of a row has a replacement, and the number of leaks."""
    written = [write_row(row) for row in rows]
    read = [redactor.read(read_document(source, ".json")) for source, _ in written]
    found = []
    redacted = redactor.redact_documents(read)
    for row, (_, places), (document, _), one in zip(rows, written, read, redacted, strict=True):
        is_private = {
            name: any(
                region.start < b and a < region.end for a, b in texts for region in one.regions
            )
            for name, place in places.items()
            if (texts := list(document.find(*place)))
        }
        found.append((read_row(row, one.text), is_private, len(one.left)))
    return found


def write_row(row: Mapping[str, Any]) -> tuple[str, dict[str, Bounds]]:
    """Return the texts of a row as a JSON object, and the place of each field in it."""
    parts, places, at = [], {}, 1
    for name, value in row.items():
        part = f"{json.dumps(name)}: {json.dumps(_keep_texts(value), ensure_ascii=False)}"
        parts.append(part)
        places[name] = at, at + len(part)
        at += len(part) + 2
    return f"{{{', '.join(parts)}}}", places


def read_row(row: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return a row with the texts of another source of `write_row`."""
    new: dict[str, Any] = _put_texts(row, json.loads(source))
    return new


def _keep_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _keep_texts(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_keep_texts(each) for each in value]
    return value if isinstance(value, str) else None


def _put_texts(old: Any, new: Any) -> Any:
    if isinstance(old, dict):
        return {key: _put_texts(each, new[key]) for key, each in old.items()}
    if isinstance(old, list | tuple):
        return type(old)(map(_put_texts, old, new))
    return new if isinstance(old, str) else old


def _find_columns(schema: Any) -> list[str]:
    """Return the names of the columns of an Arrow schema that have texts."""
    return [each.name for each in schema if _has_texts(each.type)]


def _has_texts(kind: Any) -> bool:
    pa = require("pyarrow", "parquet")
    inner = getattr(kind, "storage_type", None) or getattr(kind, "value_type", None)
    if inner is not None:
        return _has_texts(inner)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view":
        return True
    return any(_has_texts(kind.field(i).type) for i in range(kind.num_fields))


def _make_array(values: list[Any], column: Any) -> Any:
    pa = require("pyarrow", "parquet")
    try:
        return pa.array(values, column.type)
    except pa.ArrowNotImplementedError:  # a dictionary of views
        return pa.array(values).dictionary_encode()


def _replace_column(table: Any, at: int, array: Any) -> Any:
    if hasattr(table, "iloc"):
        column = array.to_pandas()
        column.index = table.index
        table = table.copy(deep=False)
        table.isetitem(at, column)  # its name may be no string
        return table
    if hasattr(table, "with_columns"):
        polars = import_module("polars")
        return table.with_columns(polars.from_arrow(array).alias(table.columns[at]))
    return table.set_column(at, table.schema.field(at), array)


def read_rows(path: Path, advance: Callable[[int], object]) -> Iterator[str | Exception]:
    """Yield the texts of the rows of a Parquet file, see `write_row`, or the error of a row."""
    with open_batches(path, advance) as (schema, batches):
        check_names(path, schema.names)
        names = _find_columns(schema)
        for batch in batches:
            for row in rows_of(batch.select(names)):
                yield row if isinstance(row, Exception) else write_row(row)[0]


def write_rows(source: Path, target: Path, texts: Iterator[str], failed: Collection[str]) -> None:
    """Write a Parquet file with other texts. failed: places of the rows without one."""
    pa, numbers = require("pyarrow", "parquet"), count(1)
    with open_batches(source, lambda n_bytes: None) as (schema, batches):
        names = _find_columns(schema)
        with require("pyarrow.parquet", "parquet").ParquetWriter(target, schema) as writer:
            for batch in batches:
                places = (f"{source}:{next(numbers)}" for _ in range(batch.num_rows))
                kept = [i for i, place in enumerate(places) if place not in failed]
                # Arrow takes no rows of views.
                every = len(kept) == batch.num_rows
                part = batch if every else batch.take(pa.array(kept, pa.int64()))
                rows = [read_row(row, next(texts)) for row in part.select(names).to_pylist()]
                for name in names:
                    array = _make_array([row[name] for row in rows], schema.field(name))
                    part = part.set_column(schema.get_field_index(name), schema.field(name), array)
                writer.write_batch(part)
