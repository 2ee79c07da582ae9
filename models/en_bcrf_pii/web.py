"""Whole documents of web texts: UNER EWT with entities, UD EWT with parts of speech.

What their annotation does not decide is unknown, a span of the label "": proper nouns without an
entity type, parts of dates, nationalities, and organizations and countries, which judgments leave.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from bcrf.io.text import read_lines

from .documents import Document
from .values import NATIONS, WORDS

Row = tuple[int, int, list[str]]
"""Start and end of a word, and its fields."""

TITLES = ("Mr.", "Mrs.", "Ms.", "Dr.", "Mr", "Mrs", "Ms", "Dr", "Prof.", "Miss")
NEAR = 2
"""Words between a month and the numbers of its date."""
GAP = 2
"""Most characters between two words. The text may lack a word: it has `im` for `in dem`."""
OF_DATE = {*WORDS["months"], *WORDS["long months"], *(f"{x}." for x in WORDS["months"])}
_NUMBER = re.compile(r"\d{3}|\d[/.:-]\d")
_QUANTITY = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?|\d+\.\d\d?%?")
_OF_AGE = re.compile(r"(?i)\bage[ds]?\b|\bold\b|\byo\b|\b(?:am|I.m|he is|she is|turn\w*) \d")
_SENTENCE = re.compile(r"\S[^\n]*?(?:[.!?](?= [A-Z]|\n|$)|(?=\n)|$)")


def read_uner(path: Path, countries: Collection[str]) -> Iterator[Document]:
    """Yield documents with persons and places."""
    for text, rows in _read(path):
        spans: list[tuple[int, int, str]] = []
        for start, end, (_, _, tag, *_) in rows:
            if tag[:2] == "I-" and spans:
                spans[-1] = (spans[-1][0], end, spans[-1][2])
            elif tag[:2] == "B-" and tag != "B-O":
                label = {"PER": "PERSON", "LOC": "GPE"}.get(tag[2:], "")
                spans.append((start, end, label))
        is_country = [text[a:b].removeprefix("the ") in countries for a, b, _ in spans]
        spans = [
            (a, b, "" if known else label)
            for (a, b, label), known in zip(spans, is_country, strict=True)
        ]
        yield Document(text, _add(spans, _find_unknown(rows)), "web")


def read_ewt(path: Path) -> Iterator[Document]:
    """Yield documents whose proper nouns are unknown."""
    for text, rows in _read(path):
        names = [(start, end, "") for start, end, row in rows if row[3] in ("PROPN", "X")]
        yield Document(text, _add(names, _find_unknown(rows)), "web")


def find_names(documents: Iterable[Document], first: Collection[str]) -> Iterator[Document]:
    """Yield the documents with persons: proper nouns behind a title or one of first names.

    Other proper nouns stay unknown, as everything else of the annotation.
    """
    for text, spans, kind in documents:
        found: list[tuple[int, int, str]] = []
        for start, end, label in spans:
            word, before = text[start:end], text[found[-1][0] : found[-1][1]] if found else ""
            is_next = bool(found) and text[found[-1][1] : start] == " " and word[0].isupper()
            is_next = is_next and not re.search(r"[@/\d]", word)  # a unit or a host
            if is_next and found[-1][2]:
                found[-1] = (found[-1][0], end, "PERSON")
                continue
            is_named = is_next and before in TITLES
            found.append((start, end, "PERSON" if is_named or word in first else label))
        if any(label for *_, label in found):
            yield Document(text, found, kind)


def find_fillers(documents: Iterable[Document]) -> Iterator[str]:
    """Yield sentences without entities, unknown words and ages."""
    for text, spans, _ in documents:
        for match in _SENTENCE.finditer(text):
            start, end = match.span()
            is_known = not any(a < end and start < b for a, b, _ in spans)
            is_age = re.search(r"\d", match[0]) and _OF_AGE.search(match[0])
            if is_known and not is_age:
                yield match[0]


def _find_unknown(rows: list[Row]) -> Iterator[tuple[int, int, str]]:
    """Yield long numbers, parts of dates and nationalities."""
    months = [i for i, (*_, row) in enumerate(rows) if row[1] in OF_DATE]
    near = {j for i in months for j in range(i - NEAR, i + NEAR + 1)}
    for i, (start, end, (_, word, *_)) in enumerate(rows):
        is_money = i and rows[i - 1][2][1] in ("$", "£", "€", "US$")
        is_number = _NUMBER.search(word) and not (is_money or _QUANTITY.fullmatch(word))
        is_of_date = i in months or (i in near and re.search(r"\d", word))
        if is_number or is_of_date or word.rstrip("s") in NATIONS:
            yield start, end, ""


def _add(
    spans: list[tuple[int, int, str]], others: Iterable[tuple[int, int, str]]
) -> list[tuple[int, int, str]]:
    """Return spans, and the others that overlap none of them."""
    free = [x for x in others if not any(a < x[1] and x[0] < b for a, b, _ in spans)]
    return sorted([*spans, *free])


def _read(path: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yield the texts of documents with their words. A paragraph is a line."""
    text, rows, between, sentence = "", [], "", ""
    words: list[list[str]] = []

    def add() -> None:
        nonlocal text, words, between
        at = len(text) + len(between)
        text += between + sentence
        ends: dict[str, int] = {}  # of contractions, by their last word
        for row in words:
            start = text.find(row[1], at)
            _, _, last = row[0].partition("-")
            if last:
                ends[last] = start + len(row[1])
            elif 0 <= start <= at + GAP:
                at = start + len(row[1])
                rows.append((start, at, row))
            at = max(at, ends.pop(row[0], 0))
        words, between = [], " "

    for line in read_lines(path):
        row = line.text
        if row.startswith("# newdoc"):
            if text:
                yield text, rows
            text, rows, between = "", [], ""
        elif row.startswith("# newpar"):
            between = "\n" if text else ""
        elif row.startswith("# text = "):
            sentence = row.removeprefix("# text = ")
        elif not row.strip() and words:
            add()
        elif re.match(r"\d+(-\d+)?\t", row):
            words.append(row.split("\t"))
    if words:
        add()
    yield text, rows
