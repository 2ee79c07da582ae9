"""`TextRecord`: a text without annotation, the output of all readers of texts."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from bcrf.io.json_objects import Problem
from bcrf.io.text import MAX_LINE

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


class TextColumns(NamedTuple):
    """Names of the columns of text and id. whole_files: a `.txt` file is one document."""

    text: str = "text"
    id: str = "id"
    whole_files: bool = False


@dataclass(slots=True)
class TextRecord:
    """One document to annotate: a text, its words, or both.

    id: value of the id column, else the place. place: file and line, or row from 1. spaces: after
    words. meta: all other columns, as JSON values, of Parquet as Python's. meta_size: in
    characters.
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


TextItem = TextRecord | Rejected
Advance = Callable[[int], object]
"""Receives the number of bytes read since its last call."""


def check_id(key: Any, name: str) -> str | None:
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


def as_json_values(value: Any) -> Any:
    """Return a value as JSON has it: other types as strings, NaN and infinity as null."""
    if isinstance(value, dict):
        return {str(key): as_json_values(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_values(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
