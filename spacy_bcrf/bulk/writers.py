"""Files of annotated documents: JSON lines, Parquet and `.spacy`."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

from spacy.tokens import DocBin

from bcrf.io.extras import require
from spacy_bcrf.corpora.texts import ID_KEY, META_KEY, as_json

from .meta_columns import read_meta_columns, split_meta
from .predictor import Predictions


class Row(NamedTuple):
    """A document to write. text: None to leave it out."""

    id: str | int
    text: str | None
    meta: Mapping[str, Any]
    predictions: Predictions


class Writer(ABC):
    """Write rows to one open file. optional: see OPTIONAL. meta: see `find_meta_columns`."""

    def __init__(self, file: IO[bytes], optional: tuple[str, ...] = (), meta: bytes = b"") -> None:
        self.file, self.optional, self.meta = file, optional, meta

    @abstractmethod
    def add(self, row: Row) -> None:
        """Add a whole row, or raise ValueError."""

    def finish(self) -> None:
        """Write what is left."""
        return


class JsonWriter(Writer):
    """JSON lines with id, text, spans, the optional fields, and meta unless it is empty."""

    def add(self, row: Row) -> None:
        fields: dict[str, Any] = {"id": row.id}
        if row.text is not None:
            fields["text"] = row.text
        for name in ("spans", *self.optional):
            fields[name] = getattr(row.predictions, name)
        line = json.dumps(fields, ensure_ascii=False, allow_nan=False)
        if row.meta:
            line = f'{line[:-1]}, "meta": {_to_json(row.meta)}}}'
        self.file.write(f"{line}\n".encode())


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
        meta = _to_json(others) if others else None
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


OPTIONAL = ("alternatives", "candidates", "dropped")
"""The optional fields of `Predictions`."""
COLUMNS = ("id", "text", "spans", *OPTIONAL, "meta")
"""Names that no meta column can have."""


def _to_json(meta: Mapping[str, Any]) -> str:
    text = json.dumps(as_json(meta), ensure_ascii=False)
    text.encode()  # half a surrogate pair cannot be written
    return text


class DocWriter(Writer):
    """Documents with their annotation. The id, meta and optional fields are in `user_data`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._docs = DocBin(store_user_data=True)

    def add(self, row: Row) -> None:
        """Add a document. A word of a document has its tags, an entity its confidence."""
        doc = row.predictions.doc
        doc.user_data[ID_KEY] = row.id
        doc.user_data[META_KEY] = _to_json(row.meta)
        for name in self.optional:
            doc.user_data[name] = json.dumps(getattr(row.predictions, name), ensure_ascii=False)
        doc.to_bytes()  # what cannot be written must not get halfway into the file
        self._docs.add(doc)

    def finish(self) -> None:
        self.file.write(self._docs.to_bytes())


WRITERS: dict[str, type[Writer]] = {
    "jsonl": JsonWriter,
    "parquet": ParquetWriter,
    "spacy": DocWriter,
}
"""Writers by format, which is also the extension of the files."""
