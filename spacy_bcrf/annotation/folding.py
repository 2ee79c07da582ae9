"""Occurrences of strings in a text, whatever their case, marks, and invisible characters."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

_DROPPED = ("Mn", "Cf")
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'")
_POSSESSIVE = re.compile("(?<=.)'s?$")
_RUN = re.compile(r"\S+\s?|\s+")
MOST_SOUGHT = 1 << 21  # characters times strings; beyond it, an index is faster than searches
_BLANKS = re.compile(r"[^\S ]|  ")
# Scripts without blanks between words, and Hangul, whose words have suffixes.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS = "".join(
    x for x in map(chr, range(0x400, 0x1E000)) if unicodedata.category(x) in ("Mc", "Me")
)
_LETTERS = f"[^\\W\\d_{_UNSPACED}]"
UNIT = re.compile(f"{_LETTERS}+(?:[{_MARKS}]+{_LETTERS}*)*|\\d+|[{_UNSPACED}][{_MARKS}]*|\\S")
# What stands before a word in JSON, code and URLs: backslash escapes and per cent encoding.
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|[nrtbf])|%[0-9a-f]{2}")
_LONGEST_ESCAPE = 6
_SHORTEST_GLUED = 6
_LONG = 100
"""Characters from which on the beginnings of a string are not kept."""
_PLURAL, _ENDING = re.compile("e?s"), re.compile("e?s$")


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

    def find(self, string: str) -> Iterator[tuple[int, int]]:
        """Yield the bounds in the old text of a folded string, at edges of words or signs.

        A plural ending may follow.
        """
        start = self.text.find(string)
        while start >= 0:
            end = start + len(string)
            if self._is_start(start) and self._is_end(end):
                yield self.offsets[start], self.offsets[end]
            start = self.text.find(string, start + 1)

    def find_all(self, strings: Collection[str]) -> dict[str, list[tuple[int, int]]]:
        """Return the bounds of each string, as `find`."""
        if len(self.text) * len(strings) <= MOST_SOUGHT:
            return {string: list(self.find(string)) for string in strings}
        index, places = StringIndex(), dict[str, list[tuple[int, int]]]()
        for string in strings:
            places[string] = []
            index.add(string)
        for string, start, end in index.find(self)[0]:
            places[string].append((start, end))
        return places

    def _find_starts(self) -> Iterable[int]:
        """Return where strings may start: at units, also those behind escapes."""
        starts = [unit.start() for unit in UNIT.finditer(self.text)]
        if "\\" in self.text or "%" in self.text:
            return sorted({*starts, *(escape.end() for escape in _ESCAPE.finditer(self.text))})
        return starts

    def _is_start(self, i: int) -> bool:
        if self._is_edge(i):
            return True
        escapes = _ESCAPE.finditer(self.text, max(0, i - _LONGEST_ESCAPE), i)
        return self._is_whole(i) and any(escape.end() == i for escape in escapes)

    def _is_end(self, i: int) -> bool:
        if self._is_edge(i):
            return True
        plural = _PLURAL.match(self.text, i)
        return plural is not None and self._is_whole(i) and self._is_edge(plural.end())

    def _is_edge(self, i: int) -> bool:
        """Return whether a unit starts here, and a character of the old text."""
        if not 0 < i < len(self.text):
            return True
        if " " in self.text[i - 1 : i + 1]:
            return self._is_whole(i)
        start = i - 1
        while start and self.text[start] in _MARKS:
            start -= 1
        before = UNIT.match(self.text, start)
        return self._is_whole(i) and (before is None or before.end() <= i)

    def _is_whole(self, i: int) -> bool:
        """Return whether a character of the old text starts here: some fold to several."""
        return self.offsets[i] != self.offsets[i - 1]


class StringIndex:
    """Folded strings, all sought at once: more strings take no more time."""

    def __init__(self) -> None:
        self._strings: set[str] = set()
        self._beginnings: set[str] = set()
        self._long: dict[str, list[str]] = {}  # by their longest beginning

    def add(self, string: str) -> None:
        if string in self._strings:
            return
        self._strings.add(string)
        for unit in UNIT.finditer(string):
            if unit.end() < len(string):
                self._beginnings.add(beginning := string[: unit.end()])
                if len(beginning) > _LONG:  # all beginnings would take quadratic memory
                    self._long.setdefault(beginning, []).append(string)
                    return

    def find(self, folded: Folded) -> tuple[list[tuple[str, int, int]], int]:
        """Return the strings in a text with their bounds in the old text, as `Folded.find`.

        Also returns the first place, in the old text, of a string that its end may have cut.
        """
        text, found, cut = folded.text, [], len(folded.text)
        for start in folded._find_starts():
            for unit in UNIT.finditer(text, start):
                ends = [unit.end()]
                if plural := _ENDING.search(unit[0], 1):
                    ends += [unit.start() + plural.start(), unit.end() - 1]
                beginning = text[start : unit.end()]
                strings = [text[start:end] for end in dict.fromkeys(ends)]
                strings = [string for string in strings if string in self._strings]
                long = self._long.get(beginning, ())
                strings += (string for string in long if text.startswith(string, start))
                for string in strings:
                    end = start + len(string)
                    if folded._is_start(start) and folded._is_end(end):
                        found.append((string, folded.offsets[start], folded.offsets[end]))
                rest = len(text) - start
                if any(rest < len(each) and each.startswith(text[start:]) for each in long):
                    cut = min(cut, start)
                if long or beginning not in self._beginnings:
                    break
            else:
                cut = min(cut, start)
        return found, folded.offsets[cut]


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


@lru_cache(1 << 12)
def join_words(name: str) -> tuple[str, ...]:
    """Return other forms of a folded name of two to four words: as names of users and files are.

    All words, or the first and the last one, joined by `_`, `.` or `-`; without initials also by a
    blank or nothing.
    """
    words, forms = re.split(r"[ _.-]+", name.rstrip(".")), list[str]()
    if not (1 < len(words) < 5 and all(word.replace("'", "").isalpha() for word in words)):
        return ()
    for some in dict.fromkeys((tuple(words), (words[0], words[-1]))):
        signs = ["_", ".", "-"]
        if min(map(len, some)) > 1:
            signs += [" "] + [""] * (len("".join(some)) >= _SHORTEST_GLUED)
        forms += (form for sign in signs if (form := sign.join(some)) != name)
    return tuple(forms)


def fold_name(text: str) -> str:
    """Return the folded text without blanks around it and without a possessive ending."""
    return _POSSESSIVE.sub("", fold(text).strip())
