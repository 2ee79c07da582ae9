"""Gold spans that cut tokens, kept beside the tokens of a document.

Annotators mark characters. Neither `Doc.ents` nor `Doc.spans` can hold a span that starts or ends
within a token, so `Doc.user_data` keeps it, as an attribute of its characters. `to_bytes`, a DocBin
of user data, `Doc.copy`, `Doc.from_docs` and `Span.as_doc(copy_user_data=True)` keep it too. Scores
count it as gold. Training learns nothing about its tokens, which are missing annotation.
"""

from collections.abc import Iterable
from typing import NamedTuple

from spacy.tokens import Doc

from .extensions import UserData, make_key

NAME = "misaligned"
"""The attribute of spans. Its value lists the pairs of span group and label."""
ENTITIES = ""
"""The span group of `Doc.ents`."""


class MisalignedSpan(NamedTuple):
    """A span of a text, in characters."""

    start: int
    end: int
    label: str


def add_misaligned(doc: Doc, span: MisalignedSpan, spans_key: str | None = None) -> None:
    """Keep a gold span beside a document. spans_key: its span group, None for entities."""
    data: UserData = doc.user_data
    data.setdefault(make_key(NAME, span.start, span.end), []).append(
        [ENTITIES if spans_key is None else spans_key, span.label]
    )


def find_misaligned(doc: Doc, spans_key: str | None = None) -> list[MisalignedSpan]:
    """Return the gold spans that cut tokens, in order of the text. spans_key: None for entities.

    A document that is a part of another one may have spans outside of its text, which are left out.
    """
    data: UserData = doc.user_data
    own = ENTITIES if spans_key is None else spans_key
    found = [
        MisalignedSpan(key[2], key[3], label)
        for key, value in data.items()
        if isinstance(key, tuple) and key[:2] == ("._.", NAME)
        for group, label in value
        if group == own
    ]
    n = len(doc.text) if found else 0
    return sorted({span for span in found if 0 <= span.start < span.end <= n})


def find_touched(doc: Doc, spans: Iterable[MisalignedSpan]) -> set[int]:
    """Return the tokens that have a character of a span."""
    found: set[int] = set()
    for start, end, _ in spans:
        if outer := doc.char_span(start, end, alignment_mode="expand"):
            found.update(range(outer.start, outer.end))
    return found
