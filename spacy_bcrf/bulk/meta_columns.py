"""Parquet columns of meta data: their Arrow types, the same in all shards of a run."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from bcrf.io.extras import require
from bcrf.io.text import CorpusError
from spacy_bcrf.corpora.texts import TextColumns, TextRecord, read_records, read_schema

SAMPLE = 1000
"""Records that give the types of JSON values and of other values without a schema."""

Types = dict[str, Any]
"""Arrow type by name of the column, None for values of several types."""


def find_meta_columns(files: Sequence[Path], columns: TextColumns, taken: Iterable[str]) -> bytes:
    """Return the serialized Arrow schema of the meta columns, which depends only on the files.

    Parquet files give the types of their columns, headers of tables strings, and the first SAMPLE
    records of all other files scalars. A column of different types other than numbers, with a name
    in `taken` or half a surrogate pair stays JSON text, see `split_meta`.
    """
    pa = require("pyarrow", "parquet")
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    types[type(None)] = pa.null()
    found: Types = {}
    left = SAMPLE
    for file in files:
        try:
            schema = read_schema(file, columns)
            if schema is not None:
                _merge(pa, found, schema)
                continue
            for item in islice(read_records(file, columns), left):
                left -= 1
                if isinstance(item, TextRecord):
                    _merge(pa, found, {k: types.get(type(v)) for k, v in item.meta.items()})
        except CorpusError:
            continue  # the run names it
    fields = []
    for name, each in found.items():
        if each is not None and each != pa.null() and name not in taken:
            with suppress(UnicodeEncodeError):
                fields.append(pa.field(name, each))
    return pa.schema(fields).serialize().to_pybytes()


def _merge(pa: Any, found: Types, more: Mapping[str, Any]) -> None:
    for name, new in more.items():
        old = found.get(name, new)
        if old is None or new is None or old == new:
            found[name] = old and new
        elif pa.null() in (old, new):
            found[name] = new if old == pa.null() else old
        else:
            numbers = (pa.int64(), pa.float64())
            found[name] = pa.float64() if old in numbers and new in numbers else None


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
