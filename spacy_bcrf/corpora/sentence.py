"""What the readers of all formats yield: a sentence with its annotations, as the file has them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spacy_bcrf.io.text import Line

# Of the languages spaCy knows, those that put no space between words.
UNSPACED = frozenset({"bo", "ja", "th", "zh"})

_WHITE_SPACE = re.compile(r"\s+")


@dataclass(slots=True)
class Sentence:
    """One sentence of W words; all lists are (W,), and None in them is missing annotation."""

    lines: list[Line]
    """The line of each word."""
    words: list[str]
    tags: list[str | None]
    """Fine-grained or universal part-of-speech tags, for spaCy's `tag_`."""
    pos: list[str | None]
    """Universal part-of-speech tags, for spaCy's `pos_`."""
    entities: list[str | None]
    """Entity tags of any scheme, not checked."""
    spaces: list[bool] | None = None
    """Whether a space follows each word; None where the file does not say, or where no spaces
    between these words give the text that it says."""
    starts_document: bool = False
    empty_nodes: int = 0
    """How many CoNLL-U empty nodes were left out: they have no place in the text."""


def join(words: Sequence[str], spaces: Sequence[bool]) -> str:
    """The text of words with a space where there is one, but none at the end."""
    text = "".join(word + " " if space else word for word, space in zip(words, spaces, strict=True))
    return text[:-1] if spaces and spaces[-1] else text


def align(words: Sequence[str], text: str) -> list[bool] | None:
    """Whether white space follows each word in `text`, True at its end.

    None if the words are not what `text` consists of.
    """
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
