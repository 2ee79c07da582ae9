"""Parquet columns of meta data: their Arrow types, the same in all shards of a run."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from bcrf.io.extras import require
from bcrf.io.text import CorpusError, text_suffix
from spacy_bcrf.corpora.formats import parquet, tables
from spacy_bcrf.corpora.inputs import read_records
from spacy_bcrf.corpora.texts import TextColumns, TextRecord

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
            if (schema := _read_schema(pa, file, columns)) is not None:
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


def _read_schema(pa: Any, path: Path, columns: TextColumns) -> Types | None:
    """Return the types of a table's meta columns, None for other files."""
    suffix = text_suffix(path)
    if suffix == ".parquet":
        schema = parquet.read_schema(path)
        types = dict(zip(schema.names, schema.types, strict=True))
        read = {columns.text, columns.id, "tokens"}
    elif suffix in (".csv", ".tsv"):
        types = dict.fromkeys(tables.read_header(path), pa.string())
        read = {columns.text, columns.id}
    else:
        return None
    return {name: each for name, each in types.items() if name not in read}


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
