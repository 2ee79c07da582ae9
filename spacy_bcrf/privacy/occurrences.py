"""Further occurrences of found strings in a text."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_bcrf.annotation.folding import MOST_SOUGHT, Folded, fold, fold_name, join_words

MIN_POOLED = 0.1
"""Smallest pooled posterior of a string whose occurrences are all replaced."""
MIN_DIGITS = 5
"""A number with fewer digits is no string of its own if it is a part of a found string."""


class Region(NamedTuple):
    """A part of a text to replace. start, end: characters. score: the posterior of its span.

    repeated: whether it is only another occurrence of a found string, with the pooled posterior.
    """

    start: int
    end: int
    label: str
    score: float
    repeated: bool = False

    def move(self, by: int) -> "Region":
        return self._replace(start=self.start + by, end=self.end + by)


class Words(NamedTuple):
    """A text, and the first characters of its tokens."""

    text: str
    starts: list[int]

    @classmethod
    def of(cls, doc: Doc, text: str, first: int = 0) -> "Words":
        """Return the words from a character of a document on, whose text is given."""
        starts = doc.to_array("IDX")
        return cls(text, (starts[starts >= first] - first).tolist())


class String(NamedTuple):
    """A folded string to replace. is_word: only of a found string, so not in lower case.

    name: the found string if this one is another form of it, else empty.
    """

    text: str
    label: str
    is_word: bool = False
    name: str = ""

    def is_in(self, text: str) -> bool:
        """Return whether an occurrence counts: a word of a string has another one in lower case."""
        return not (self.is_word and text.islower())


def find_places(
    text: str, strings: Sequence[String], folded: Folded | None = None
) -> Iterator[tuple[String, list[tuple[int, int]]]]:
    """Yield strings with start and end of each occurrence in a text, which may be folded."""
    places = (folded or Folded(text)).find_all([string.text for string in strings])
    for string in strings:
        yield string, [place for place in places[string.text] if string.is_in(text[slice(*place)])]


def find_strings(words: Words, spans: Sequence[Region], sought: str | None = None) -> list[String]:
    """Return the found strings, their forms and words, each with the label of the highest score.

    sought: a folded text that has each returned form; None returns all forms.

    A string that is found itself is no word of another one. A word in lower case, such as "of", is
    no string of its own, and one in upper case does not occur in lower case. Nor is a number of
    few digits, such as 10 in an address of a network, which says nothing alone.
    """
    found: dict[str, String] = {}
    forms: dict[str, String] = {}
    parts: dict[str, String] = {}
    text, starts = words
    forms_of = join_words if sought is None else _find_forms(sought, len(spans))
    for start, end, label, *_ in sorted(spans, key=lambda span: span.score):
        if name := fold_name(text[start:end]):
            found[name] = String(name, label)
            for form in forms_of(name):
                forms[form] = String(form, label, name=name)
        for i in range(bisect_left(starts, start), bisect_left(starts, end)):
            token = text[starts[i] : starts[i + 1] if i + 1 < len(starts) else None]
            word = "" if token.islower() else fold_name(token)
            signs = sum(map(str.isalnum, word))
            if signs >= MIN_DIGITS or (signs > 1 and any(map(str.isalpha, word))):
                parts[word] = String(word, label, True)
    return list({**parts, **forms, **found}.values())


def _find_forms(text: str, n_names: int) -> Callable[[str], Iterable[str]]:
    """Return what finds the forms of a name that a folded text has. n_names: to come.

    Searches take a text's length each: for many, its pieces of four characters rule out most.
    """
    is_long = len(text) * n_names > MOST_SOUGHT
    pieces = {text[i : i + 4] for i in range(len(text) - 3)} if is_long else None

    def has(form: str) -> bool:
        inner = (form[i : i + 4] for i in range(len(form) - 3))
        return (pieces is None or pieces.issuperset(inner)) and form in text

    return cache(lambda name: list(filter(has, join_words(name))))


def merge_repeats(
    words: Words, spans: Sequence[Region], inside: NDArray, markup: str = ""
) -> tuple[list[Region], list[String]]:
    """Return the merged spans and repeats, and the strings to replace in the text or its markup.

    Repeats are all occurrences of strings whose pooled posterior is large enough, of another form
    together with the found string. inside: (n,) the probability that a token is in a span.
    """
    text, starts = words
    folded, p, repeats = Folded(text), inside.tolist(), list[Region]()
    sought = f"{folded.text}\n{fold(markup)}" if markup else folded.text
    strings = find_strings(words, spans, sought)
    sums: dict[str, tuple[float, int]] = {}
    found = list(find_places(text, strings, folded))
    found.sort(key=lambda each: bool(each[0].name))  # other forms last
    for string, places in found:
        of_places = [
            min(p[bisect_right(starts, start) - 1 : bisect_left(starts, end)])
            for start, end in places
        ]
        total, n = sums[string.text] = sum(of_places), len(places)
        if string.name:
            more, n_more = sums[string.name]
            total, n = total + more, n + n_more
        pooled = total / max(1, n)
        if pooled >= MIN_POOLED:
            repeats += [Region(*place, string.label, pooled, True) for place in places]
    return merge_regions([*spans, *repeats]), strings


def merge_regions(regions: Iterable[Region]) -> list[Region]:
    """Return regions without overlaps: their unions, with the label of the highest score."""
    merged: list[Region] = []
    for region in sorted(regions):
        if merged and region.start < merged[-1].end:
            best = max(merged[-1], region, key=lambda one: (not one.repeated, one.score))
            end = max(merged[-1].end, region.end)
            merged[-1] = best._replace(start=merged[-1].start, end=end)
        else:
            merged.append(region)
    return merged
