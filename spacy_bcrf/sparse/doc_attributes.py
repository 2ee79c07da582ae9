"""Attributes of a token that depend on the whole document.

    position[0]               distances from the start and the end of the sentence
    field[0]                  the words before the last colon of the line: of forms and letters
    repeated[0]               the case of the word elsewhere in the document
    elsewhere.tag[0]          values of a token attribute at other occurrences of the word
    elsewhere_before.lower[0] values of the tokens before other occurrences
    elsewhere_after.lower[0]  values of the tokens after other occurrences

Occurrences of a word are equal in lower case. Each function returns the values of each token, at
most `MOST` for a token, and takes O(n log n) for a document of n tokens.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from spacy.attrs import IS_ALPHA, LOWER, ORTH  # type: ignore[import-not-found]
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc

POOLED = "pooled"
"""The attribute of `two_pass`, whose values the first chain gives."""

Values = list[list[str]]
"""The values of each token of a document."""

MOST = 8
"""Number of values of a word that count: the most frequent, and of equals the first in the text."""

_BOUNDS = (0, 1, 2, 5, 10)
_FIELD = 3
_COLON = hash_string(":")
_STOPS = set(map(hash_string, (".", ",", ";", ".,", ",;", ".,;")))


def positions(doc: Doc) -> Values:
    """Return classes of the distances from both ends of the sentence, or of the document."""
    spans = list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]
    return [
        [f"start {_class(i)}", f"end {_class(len(span) - 1 - i)}"]
        for span in spans
        for i in range(len(span))
    ]


def _class(distance: int) -> str:
    return next((f"<={bound}" for bound in _BOUNDS if distance <= bound), f">{_BOUNDS[-1]}")


def fields(doc: Doc) -> Values:
    """Return the words before the last colon left of each token in its line, at most `_FIELD`.

    They are in lower case and reach back to a period or comma: "fecha ingreso" for the date in
    "Sexo: H. Fecha (Ingreso): 17/06/2016".
    """
    strings, found = doc.vocab.strings, Values()
    line: list[int] = []
    field: list[str] = []
    # Arrays are faster than tokens.
    for orth, lower, is_alpha in doc.to_array([ORTH, LOWER, IS_ALPHA]).tolist():
        found.append(field)
        if is_alpha:
            line.append(lower)
        elif orth == _COLON:
            field = [" ".join(strings[x] for x in line[-_FIELD:])] if line else field
            line = []
        elif orth in _STOPS:
            line = []
        elif "\n" in strings[orth]:
            line, field = [], []
    return found


def repeated_case(doc: Doc) -> Values:
    """Return "lower" or, elsewhere than at the start of a sentence, "capitalized" of others."""
    cases = []
    for token in doc:
        starts = token.is_sent_start is True or token.i == 0
        text = token.text
        case = "lower" if text.islower() else "capitalized" if text[:1].isupper() else ""
        cases.append("" if starts and case == "capitalized" else case)
    return _of_others(doc, cases, 0)


def elsewhere(doc: Doc, attribute: str, offset: int) -> Values:
    """Return the values of a string attribute at other occurrences, or the offset -1 or 1."""
    hashes: Any = doc.to_array([attribute.upper()])
    return _of_others(doc, [doc.vocab.strings[value] for value in hashes.ravel().tolist()], offset)


def _of_others(doc: Doc, values: Sequence[str], offset: int) -> Values:
    """Return the distinct values, sorted, at an offset from other occurrences of each word."""
    near = [values[j] if 0 <= j < len(doc) else "" for j in range(offset, len(doc) + offset)]
    words: list[Hashable] = [token.lower for token in doc]
    by_word: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for word, value in zip(words, near, strict=True):
        if value:
            by_word[word][value] += 1
    frequent = {word: counts.most_common(MOST) for word, counts in by_word.items()}
    return [
        sorted(v for v, n in frequent.get(word, ()) if n > (v == own))
        for word, own in zip(words, near, strict=True)
    ]


PLAIN: dict[str, Callable[[Doc], Values]] = {
    "field": fields,
    "position": positions,
    "repeated": repeated_case,
}
"""Attributes without a name after a dot."""

OFFSETS = {"elsewhere": 0, "elsewhere_before": -1, "elsewhere_after": 1}
"""Attributes that read a token attribute, by the offset from the other occurrences."""
