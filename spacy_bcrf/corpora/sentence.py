"""`Sentence`: words and their tags, the output of all readers of column formats."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bcrf.io.text import CorpusError, Line

UNSPACED = frozenset({"bo", "ja", "th", "zh"})
"""spaCy's languages that put no space between words."""

_WHITE_SPACE = re.compile(r"\s+")

OnMalformed = Callable[[CorpusError], object]
"""Receives the error of a malformed sentence, and raises it or returns to skip the sentence."""


def raise_error(error: CorpusError) -> None:
    raise error


@dataclass(slots=True)
class Sentence:
    """One sentence of W words. All lists are (W,); None in them is missing annotation.

    tags: fine-grained or universal, for `tag_`. pos: universal, for `pos_`. entities: tags of any
    scheme, not checked. layers: entity tags of further columns, whose entities may overlap.
    spaces: whether a space follows each word; None if the file has no spaces, or another text.
    empty_nodes: number of CoNLL-U's, which are not in the text. dropped: malformed lines left out.
    """

    lines: list[Line] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str | None] = field(default_factory=list)
    pos: list[str | None] = field(default_factory=list)
    entities: list[str | None] = field(default_factory=list)
    layers: list[list[str | None]] = field(default_factory=list)
    spaces: list[bool] | None = None
    starts_document: bool = False
    empty_nodes: int = 0
    dropped: list[CorpusError] = field(default_factory=list)


def join(words: Sequence[str], spaces: Sequence[bool]) -> str:
    """Return the text of words with these spaces, without a space at the end."""
    text = "".join(word + " " if space else word for word, space in zip(words, spaces, strict=True))
    return text[:-1] if spaces and spaces[-1] else text


def align(words: Sequence[str], text: str) -> list[bool] | None:
    """Return whether white space follows each word, the last too. None if the text differs."""
    spaces, end = [], 0
    for word in words:
        if not text.startswith(word, end):
            return None
        end += len(word)
        gap = _WHITE_SPACE.match(text, end)
        spaces.append(gap is not None)
        if gap:
            end = gap.end()
    if end < len(text):
        return None
    return [*spaces[:-1], True]
