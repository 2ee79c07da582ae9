"""Attributes of the word form, such as suffixes."""

import re
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from itertools import takewhile

from spacy.lang.lex_attrs import word_shape

from spacy_bcrf.annotation.check_digits import is_card, is_iban, is_ip

_EDGES = re.compile(r"^\W+|\W+$")
DIRECTION = re.compile("(?=.)(n|s|north|south)?(e|w|east|west)?")
STREET = re.compile(
    "(alley|aly|av|ave|avenue|bend|bluff|blvd|boulevard|branch|bridge|brook|bypass|byp|causeway|"
    "center|centre|cir|circle|cliff|common|corner|course|court|cove|cr|creek|crescent|crossing|"
    "crt|cswy|ct|ctr|cv|dr|drive|estate|expressway|expy|field|forest|freeway|fwy|garden|gate|"
    "glen|green|grove|harbor|height|hgwy|highway|hill|hiway|hollow|ht|hwy|island|isle|junction|"
    "key|knoll|lake|landing|lane|ln|loop|lp|mall|manor|meadow|mill|mount|mountain|oval|park|"
    "parkway|pass|passage|path|pike|pine|pk|pkwy|pky|pl|place|plain|plaza|plz|point|pt|ranch|rd|"
    "ridge|river|road|route|row|rte|run|shore|spring|sq|square|st|sta|station|str|street|summit|"
    "ter|terr|terrace|tpke|trace|track|trail|trl|turnpike|valley|view|village|vista|vly|walk|way|"
    "well|wy|xing)s?"
)
"""Types of streets in addresses of the United States, with their abbreviations."""

Function = Callable[[Iterable[int], str], Iterator[str]]
"""From ascending lengths and a word to values."""


def _substrings(lengths: Iterable[int], word: str) -> Iterator[str]:
    found = {word[i : i + n] for n in _up_to(len(word), lengths) for i in range(len(word) - n + 1)}
    return iter(sorted(found))


def _up_to(most: int, lengths: Iterable[int]) -> Iterator[int]:
    """Yield the lengths up to `most`. A range can be far longer than any word."""
    return takewhile(lambda n: n <= most, lengths)


def _brief_shape(word: str) -> str:
    """Return the word's shape without repetitions: `Xx-d` for `Interleukin-12`."""
    kinds = (
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word
    )
    brief: list[str] = []
    for kind in kinds:
        if brief[-1:] != [kind]:
            brief.append(kind)
    return "".join(brief)


def _characters(word: str) -> Iterator[str]:
    """Yield the word's character classes, from the SAPO paper and Ratnaparkhi (1996)."""
    has_digit, has_upper = any(map(str.isdigit, word)), any(map(str.isupper, word))
    tests = {
        "digit": has_digit,
        "upper": has_upper,
        "initial": word[:1].isupper(),
        "all upper": word.isupper(),
        "hyphen": "-" in word,
        "alphanumeric": has_digit and any(map(str.isalpha, word)),
        "only punctuation": not any(map(str.isalnum, word)),
        "inner upper": has_upper and any(map(str.isupper, word[1:])) and not word.isupper(),
    }
    return (name for name, holds in tests.items() if holds)


def _parts_of_address(word: str) -> Iterator[str]:
    """Yield traits of a word in an address, as usaddress: form, length, meaning and letters."""
    word = unescape(word)
    letters = _EDGES.sub("", word.lower()).replace(".", "") or word
    is_number, last = letters.isdigit(), word.rstrip()[-1:]
    yield f"{'number' if is_number else 'length'} {len(letters)}"
    yield f"zeros {len(letters) - len(letters.rstrip('0'))}" if is_number else f"word {letters}"
    yield f"digits {is_number} {any(c.isdigit() for c in letters)}"
    yield f"direction {DIRECTION.fullmatch(letters) is not None}"
    yield f"street {STREET.fullmatch(letters) is not None}"
    yield f"vowels {not {*'aeiou'}.isdisjoint(letters[1:])}"
    yield f"end {'' if last.isalnum() else last}"


def find_identifiers(word: str) -> Iterator[str]:
    """Yield the kinds of a word, of "card", "iban", "ip", "mail" and "web"."""
    return (kind for kind, holds in PREDICATES.items() if holds(word))


PREDICATES: dict[str, Callable[[str], object]] = {
    "card": is_card,
    "iban": is_iban,
    "ip": is_ip,
    "mail": re.compile(r"[^@\s]+@[^@\s.]+\.[^@\s]+").fullmatch,
    "web": re.compile(r"(https?://|www\.)\S+", re.IGNORECASE).match,
}

LENGTHS: dict[str, Function] = {
    "prefix": lambda lengths, word: (word[:n] for n in _up_to(len(word), lengths)),
    "suffix": lambda lengths, word: (word[-n:] for n in _up_to(len(word), lengths)),
    "substring": _substrings,
}
"""Attributes that take lengths in characters."""

PLAIN: dict[str, Callable[[str], Iterator[str]]] = {
    "lower": lambda word: iter([word.lower()]),
    "shape": lambda word: iter([word_shape(word)]),
    "digits": lambda word: iter(["".join("#" if c.isdigit() else c for c in word.lower())]),
    "brief": lambda word: iter([_brief_shape(word)]),
    "character": _characters,
    "core": lambda word: iter([_EDGES.sub("", word.lower()).replace(".", "")]),
    "identifier": find_identifiers,
    "address": _parts_of_address,
}
"""Attributes without an argument: the lowercased word and its shape, as spaCy's lexemes have them
unless a vocabulary has getters of its own; the lowercased word with `#` for digits, its shape
without repetitions, its character classes; the lowercased word without periods and without
punctuation at its edges; the kinds of identifiers that it can be; its traits in an address."""
