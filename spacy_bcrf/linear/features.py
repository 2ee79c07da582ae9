"""Features of tokens: keys by compiled templates, and the rows of weights that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS, ORTH  # type: ignore[import-not-found]
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc

from .templates import Attribute, Template, TemplateError, parse_templates
from .words import LENGTHS, PLAIN, Words

Keys = NDArray[np.uint64]


class Rows(NamedTuple):
    """Features of N tokens: those of token i are rows[starts[i]:starts[i + 1]].

    rows: int32; starts: int64 (N + 1,).
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def to_rows(rows: NDArray[np.int32], starts: NDArray[np.int64]) -> Rows:
    """Without the rows of -1."""
    known = rows >= 0
    if known.all():
        return Rows(rows, starts)
    before = np.concatenate([[0], known.cumsum(dtype="int64")])
    return Rows(rows[known], before[starts])


class Features:
    """The templates, compiled: from tokens to 64-bit keys.

    TemplateError naming the template for one that cannot be read or names an unknown attribute.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self.templates = parse_templates(self.texts)
        # Columns: attributes of spaCy, then extensions, then what depends on the word alone.
        attributes = dict.fromkeys(
            part.attribute for template in self.templates for part in template.parts
        )
        checked = [(attribute, _kind(attribute, self.templates)) for attribute in attributes]
        self._token = [a for a, kind in checked if kind == "token"]
        self._extension = [a for a, kind in checked if kind == "extension"]
        self._word = [a for a, kind in checked if kind == "word"]
        self._words = Words([_function(attribute) for attribute in self._word])
        self._ids = [IDS[a.name.upper()] for a in self._token]
        self._extractor: Any = None

    def keys(self, docs: Sequence[Doc], origins: bool = False) -> tuple[Keys, Any, Any]:
        """Keys uint64, starts int64 (N + 1,), and, if asked, each key's template, int32."""
        if not docs:
            return np.zeros(0, "uint64"), np.zeros(1, "int64"), np.zeros(0, "int32")
        raw = np.concatenate([self._read(doc) for doc in docs])
        lengths = np.array([len(doc) for doc in docs], dtype="int32")
        strings = docs[0].vocab.strings
        return self.extract(raw[:, 0], raw[:, 1:], lengths, strings.__getitem__, origins)

    def extract(
        self,
        orths: Keys,
        values: Keys,
        lengths: NDArray[np.int32],
        text: Callable[[int], str],
        origins: bool = False,
    ) -> tuple[Keys, Any, Any]:
        """The same from arrays: orths (N,), values (N, A) of `columns`, lengths (B,).

        text: what the word of a hash is; asked once for each.
        """
        types = self._words.find(np.ascontiguousarray(orths), text)
        starts, bag = self._words.arrays
        if self._extractor is None:
            self._extractor = self._compile()
        return self._extractor.extract(
            np.ascontiguousarray(values), types, starts, bag, len(self._word), lengths, origins
        )

    @property
    def columns(self) -> list[Attribute]:
        """The attributes of which `extract` wants values, in order."""
        return self._token + self._extension

    def describe(self, doc: Doc, i: int) -> Iterator[tuple[str, str]]:
        """Template and feature of token i, readable, in the order of its keys. For people."""
        for template in self.templates:
            parts = [list(self._show(doc, i + p.offset, p.attribute)) for p in template.parts]
            for values in product(*parts):
                yield str(template), f"{template}={'|'.join(values)}"

    def _show(self, doc: Doc, i: int, attribute: Attribute) -> Iterator[str]:
        if not 0 <= i < len(doc):
            yield f"<{i}>" if i < 0 else f"<+{i - len(doc) + 1}>"
        elif attribute in self._word:
            yield from _function(attribute)(doc[i].text)
        elif attribute in self._extension:
            value = _extension_value(doc[i], attribute)
            if value not in (None, "", False):
                yield str(value)
        else:
            strings: Any = doc.vocab.strings
            value = int(doc.to_array(IDS[attribute.name.upper()])[i])
            if value:
                yield strings[value] if value in strings else str(value)

    def _read(self, doc: Doc) -> Keys:
        """(n, 1 + A) the words' hashes and the values of `columns`."""
        values: Any = doc.to_array([ORTH, *self._ids]).reshape(len(doc), 1 + len(self._ids))
        if not self._extension:
            return values
        extra = [
            [_hash(_extension_value(token, attribute)) for attribute in self._extension]
            for token in doc
        ]
        more = np.array(extra, dtype="uint64").reshape(len(doc), len(self._extension))
        return np.concatenate([values, more], axis=1)

    def _compile(self) -> Any:
        from ..kernels.linear import Extractor

        columns = {a: k for k, a in enumerate(self._token + self._extension + self._word)}
        return Extractor(
            [
                (hash_string(str(t)), [(columns[p.attribute], p.offset) for p in t.parts])
                for t in self.templates
            ]
        )


def _extension_value(token: Any, attribute: Attribute) -> object:
    return token._.get(attribute.name.removeprefix("_."))


def _hash(value: object) -> int:
    return 0 if value in (None, "", False) else hash_string(str(value))


def _function(attribute: Attribute) -> Callable[[str], Iterator[str]]:
    if attribute.first is None:
        return PLAIN[attribute.name]
    return partial(_call, attribute)


def _call(attribute: Attribute, word: str) -> Iterator[str]:
    assert attribute.first is not None and attribute.last is not None
    return LENGTHS[attribute.name](word, attribute.first, attribute.last)


def _kind(attribute: Attribute, templates: list[Template]) -> str:
    """Where the values of an attribute come from."""
    name, has_argument = attribute.name, attribute.first is not None
    if (name in LENGTHS and has_argument) or (name in PLAIN and not has_argument):
        return "word"
    if not has_argument and name.startswith("_."):
        return "extension"
    # `prefix` and `suffix` without a length are those of spaCy's lexemes.
    if not has_argument and name == name.lower() and IDS.get(name.upper()):
        return "token"
    template = next(t for t in templates if any(p.attribute == attribute for p in t.parts))
    at = str(template).index(str(attribute)) + 1
    if name in PLAIN or (IDS.get(name.upper()) and has_argument):
        what = f"{name} takes no argument"
    else:
        what = (
            f"unknown attribute {attribute}; expected one of a spaCy token (orth or w, lower, tag "
            f"or p, pos, shape, ..), _.extension, {', '.join(PLAIN)}, or "
            f"{', '.join(f'{f}(3) or {f}(1..4)' for f in LENGTHS)}"
        )
    raise TemplateError(f"template {str(template)!r}, position {at}: {what}")
