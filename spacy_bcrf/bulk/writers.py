"""Files of annotated documents: JSON lines, Parquet and `.spacy`."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from spacy.tokens import DocBin

from spacy_bcrf.corpora.texts import ID_KEY, META_KEY
from spacy_bcrf.io.extras import require

from .predictions import Predictions


class Row(NamedTuple):
    """A document to write. meta: JSON text. text: None to leave it out."""

    id: str | int
    text: str | None
    meta: str
    predictions: Predictions


class Writer(Protocol):
    """Write rows to one file. `add` writes a whole row, or raises ValueError."""

    def __init__(self, path: Path, optional: tuple[str, ...]) -> None:
        """optional: the optional fields of all rows, of `Predictions`."""

    def add(self, row: Row) -> None:
        """Add a row."""

    def __enter__(self) -> Writer:
        """Open the file."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the file, unless an exception ends the writing."""


class JsonWriter:
    """JSON lines with id, text, spans, the optional fields, and meta unless it is empty."""

    def __init__(self, path: Path, optional: tuple[str, ...]) -> None:
        self.optional = optional
        self._file = path.open("wb")

    def add(self, row: Row) -> None:
        """Write a line."""
        fields: dict[str, Any] = {"id": row.id}
        if row.text is not None:
            fields["text"] = row.text
        for name in ("spans", *self.optional):
            fields[name] = getattr(row.predictions, name)
        line = json.dumps(fields, ensure_ascii=False, allow_nan=False)
        if row.meta != "{}":
            line = f'{line[:-1]}, "meta": {row.meta}}}'
        self._file.write(f"{line}\n".encode())

    def __enter__(self) -> JsonWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class ParquetWriter:
    """Columns id, text, meta (JSON text), spans and the optional fields (lists of structs)."""

    def __init__(self, path: Path, optional: tuple[str, ...]) -> None:
        self.path, self.optional = path, optional
        self._rows: list[dict[str, Any]] = []

    def add(self, row: Row) -> None:
        """Add a row to the only table of the file."""
        names = ("spans", *self.optional)
        fields = {name: getattr(row.predictions, name) for name in names}
        self._rows.append({"id": str(row.id), "text": row.text, "meta": row.meta, **fields})

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            pa = require("pyarrow", "parquet")
            table = pa.Table.from_pylist(self._rows, schema=make_schema(pa, self.optional))
            require("pyarrow.parquet", "parquet").write_table(table, self.path)


def make_schema(pa: Any, optional: tuple[str, ...]) -> Any:
    """Return the Arrow schema of all shards. pa: the module pyarrow."""
    bounds = [("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]
    spans = pa.list_(pa.struct([("pipe", pa.string()), *bounds, ("probability", pa.float64())]))
    labelings = [("probability", pa.float64()), ("spans", pa.list_(pa.struct(bounds)))]
    types = {"alternatives": pa.list_(pa.struct([("pipe", pa.string()), *labelings]))}
    columns = [(name, pa.string()) for name in ("id", "text", "meta")]
    columns += [(name, types.get(name, spans)) for name in ("spans", *optional)]
    return pa.schema(columns)


class DocWriter:
    """Documents with their annotation. The id, meta and optional fields are in `user_data`."""

    def __init__(self, path: Path, optional: tuple[str, ...]) -> None:
        self.path, self.optional = path, optional
        self._docs = DocBin(store_user_data=True)

    def add(self, row: Row) -> None:
        """Add a document. A word of a document has its tags, an entity its confidence."""
        doc = row.predictions.doc
        doc.user_data[ID_KEY] = row.id
        doc.user_data[META_KEY] = row.meta
        for name in self.optional:
            doc.user_data[name] = json.dumps(getattr(row.predictions, name), ensure_ascii=False)
        doc.to_bytes()  # what cannot be written must not get halfway into the file
        self._docs.add(doc)

    def __enter__(self) -> DocWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._docs.to_disk(self.path)


WRITERS: dict[str, type[Writer]] = {
    "jsonl": JsonWriter,
    "parquet": ParquetWriter,
    "spacy": DocWriter,
}
"""Writers by format, which is also the extension of the files."""
