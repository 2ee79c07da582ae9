"""Spaces between words: from words to text and back."""

import re
from collections.abc import Sequence

UNSPACED = frozenset({"bo", "ja", "th", "zh"})
"""spaCy's languages that put no space between words."""

_WHITE_SPACE = re.compile(r"\s+")


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
