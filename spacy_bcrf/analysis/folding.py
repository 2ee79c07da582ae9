"""Occurrences of strings in a text, whatever their case, marks, and invisible characters."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

_DROPPED = ("Mn", "Cf")
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'")
_POSSESSIVE = re.compile("(?<=.)'s?$")
_RUN = re.compile(r"\S+\s?|\s+")
_SHORT = 1 << 16  # characters; in longer texts, an index of words is faster than a search
_BLANKS = re.compile(r"[^\S ]|  ")
# Scripts without blanks between words, and Hangul, whose words have suffixes.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS = "".join(
    x for x in map(chr, range(0x400, 0x1E000)) if unicodedata.category(x) in ("Mc", "Me")
)
_LETTERS = f"[^\\W_{_UNSPACED}]"
_UNIT = re.compile(f"{_LETTERS}+(?:[{_MARKS}]+{_LETTERS}*)*|[{_UNSPACED}][{_MARKS}]*|\\S")


@lru_cache(1 << 16)
def is_sign(character: str) -> bool:
    """Return whether a character can tell something: no blank, punctuation or sign of ASCII."""
    if character.isascii():
        return character.isalnum()
    return not character.isspace() and unicodedata.category(character)[0] not in "PZ"


@lru_cache(1 << 16)
def _continues(character: str) -> bool:
    """Return whether a character belongs to the one before it: marks, vowels of Hangul."""
    return "\u1160" <= character <= "\u11ff" or (
        unicodedata.category(character) in (*_DROPPED, "Mc", "Me")
    )


@lru_cache(1 << 16)
def fold_character(characters: str) -> str:
    """Return the folded text of a character and its marks, see `Folded`. Empty for marks."""
    plain = unicodedata.normalize("NFKD", characters.casefold())
    kept = "".join(x for x in plain if unicodedata.category(x) not in _DROPPED)
    if not kept.strip() and unicodedata.category(characters[0])[0] == "L":
        return characters[0]  # the Greek iota subscript alone is a blank and a mark
    return unicodedata.normalize("NFC", kept.casefold()).translate(_APOSTROPHES)


class Folded:
    """A text as strings are compared: compatibility forms, casefold, no marks, one blank.

    It is without nonspacing marks and format characters (Mn, Cf), so composed and decomposed
    characters are equal. offsets (M + 1): the place in the old text of each character.
    """

    def __init__(self, text: str) -> None:
        self.text, self.offsets = _fold_text(text)
        self._places: dict[str, list[int]] = {}

    def find(self, string: str) -> Iterator[tuple[int, int]]:
        """Yield the bounds in the old text of a folded string, at edges of words or signs."""
        for start in self._find_candidates(string):
            end = start + len(string)
            if self._is_edge(start) and self._is_edge(end):
                yield self.offsets[start], self.offsets[end]

    def _find_candidates(self, string: str) -> Iterator[int]:
        if len(self.text) < _SHORT:
            start = self.text.find(string)
            while start >= 0:
                yield start
                start = self.text.find(string, start + 1)
        elif first := _UNIT.match(string):
            if not self._places:
                for unit in _UNIT.finditer(self.text):
                    self._places.setdefault(unit[0], []).append(unit.start())
            for start in self._places.get(first[0], ()):
                if self.text.startswith(string, start):
                    yield start

    def _is_edge(self, i: int) -> bool:
        """Return whether a unit starts here, and a character of the old text."""
        if not 0 < i < len(self.text):
            return True
        before = _UNIT.match(self.text, i - 1)
        return self.offsets[i] != self.offsets[i - 1] and (before is None or before.end() <= i)


def _fold_text(text: str) -> tuple[str, Sequence[int]]:
    if text.isascii() and not _BLANKS.search(text):
        return text.lower(), range(len(text) + 1)
    parts: list[str] = [""]
    offsets: list[int] = []
    for run in _RUN.finditer(text):
        start = run.start()
        folded, places = _fold_run(run[0])
        if folded == " " and parts[-1].endswith(" "):
            continue
        parts.append(folded)
        if places is None:
            offsets += range(start, start + len(folded))
        else:
            offsets += [start + i for i in places]
    return "".join(parts), [*offsets, len(text)]


@lru_cache(1 << 16)
def _fold_run(run: str) -> tuple[str, Sequence[int] | None]:
    """Return a folded word with a blank, or blanks, and places of characters, None if in order."""
    if run.isspace():
        return " ", (0,)
    if run[-1].isspace():
        run = f"{run[:-1]} "
    if run.isascii():
        return run.lower(), None
    parts, places, start = [], list[int](), 0
    while start < len(run):
        end = start + 1
        while end < len(run) and _continues(run[end]) and is_sign(run[start]):
            end += 1
        folded = fold_character(run[start:end])
        parts.append(folded)
        places += [start] * len(folded)
        start = end
    return "".join(parts), None if places == [*range(len(run))] else tuple(places)


def fold(text: str) -> str:
    """Return the folded text, see `Folded`."""
    return _fold_text(text)[0]


def fold_name(text: str) -> str:
    """Return the folded text without blanks around it and without a possessive ending."""
    return _POSSESSIVE.sub("", fold(text).strip())
