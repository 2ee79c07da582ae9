"""Arrow files, as `datasets` of Hugging Face keeps them: rows with the fields of `jsonl`."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bcrf.io.extras import require
from bcrf.io.json_objects import Item, Problem
from bcrf.io.text import CorpusError, open_decompressed
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import N_LINES, Sample
from spacy_bcrf.corpora.texts import as_json_values

from .jsonl import read_fields


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    """Yield the records of a file or stream of Arrow."""
    pa = require("pyarrow", "parquet")
    with open_decompressed(sample.path) as raw:
        try:
            data = raw.read()
            try:
                file = pa.ipc.open_file(data)
                batches = map(file.get_batch, range(file.num_record_batches))
            except pa.ArrowInvalid:
                file = batches = pa.ipc.open_stream(data)
            yield from read_batches(sample.path, file.schema, batches, reading)
        except pa.ArrowException as error:
            raise CorpusError(f"{sample.path}: cannot be read as Arrow: {error}") from None


def read_batches(
    path: Path, schema: Any, batches: Iterable[Any], reading: Reading
) -> Iterator[Record]:
    """Yield the records of Arrow batches. The schema names the classes of Hugging Face."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError):
        features = {}

    def read_items() -> Iterator[Item]:
        for number, fields in enumerate(chain.from_iterable(map(rows_of, batches)), 1):
            place = f"{path}:{number}"
            if isinstance(fields, Exception):
                yield Item(place, Problem("unreadable", f"cannot be read: {fields}"))
            else:
                named = {key: _name(value, features.get(key)) for key, value in fields.items()}
                yield Item(place, as_json_values(named))

    items = read_items()
    head = list(islice(items, N_LINES))
    first = [item.value for item in head if isinstance(item.value, dict)]
    yield from read_fields(chain(head, items), path, first, reading)


def rows_of(batch: Any) -> Iterator[dict[str, Any] | Exception]:
    """Yield the rows of an Arrow batch, or the error of a row without Python values."""
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError) as error:
        if batch.num_rows == 1:
            yield error
            return
        half = batch.num_rows // 2
        rows = chain(rows_of(batch.slice(0, half)), rows_of(batch.slice(half)))
    yield from rows


def _name(value: Any, feature: Any) -> Any:
    """Return a value with the names of classes in place of their ids, -1 for none."""
    if isinstance(feature, list):  # an older form of a list's feature
        feature = {"feature": feature[0]} if feature else None
    if not isinstance(feature, dict):
        return value
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    if isinstance(names, list) and type(value) is int:
        return names[value] if 0 <= value < len(names) else None if value == -1 else value
    inner = feature.get("feature", feature)
    if isinstance(value, list):
        return [_name(item, inner) for item in value]
    if isinstance(value, dict):  # a list of objects is an object of lists
        return {
            key: [_name(x, inner.get(key)) for x in each]
            if isinstance(each, list) and inner is not feature
            else _name(each, inner.get(key))
            for key, each in value.items()
        }
    return value
