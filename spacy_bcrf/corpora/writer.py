"""What formats write: annotated documents of `annotate`, and tasks of `rank`."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import IO, Any, NamedTuple

from spacy.tokens import Doc

from .texts import as_json_values

SpanRecord = dict[str, Any]
"""pipe, start, end (characters), label, probability."""

OPTIONAL = ("alternatives", "candidates", "dropped")
"""The optional fields of `DocPredictions`."""
RESERVED = ("id", "text", "spans", *OPTIONAL, "meta")
"""Names that no meta column can have."""


class DocPredictions(NamedTuple):
    """The predictions of all chosen components for one document. candidates: of a recall promise.

    alternatives: with pipe, probability and spans. dropped: predictions below a threshold.
    """

    doc: Doc
    spans: list[SpanRecord]
    alternatives: list[SpanRecord]
    candidates: list[SpanRecord]
    dropped: list[SpanRecord]


class Row(NamedTuple):
    """A document to write. text: None to leave it out."""

    id: str | int
    text: str | None
    meta: Mapping[str, Any]
    predictions: DocPredictions


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


def dump_meta(meta: Mapping[str, Any]) -> str:
    text = json.dumps(as_json_values(meta), ensure_ascii=False)
    text.encode()  # half a surrogate pair cannot be written
    return text


class Task(NamedTuple):
    """A document to annotate: id, text and all other columns, and its predictions.

    predicted: the lists `predictions` and `alternatives` of spans with label and score.
    """

    fields: dict[str, Any]
    uncertainty: float
    doc: Doc
    predicted: dict[str, Any]


def write_lines(values: Iterable[Any], file: IO[str]) -> None:
    file.writelines(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
