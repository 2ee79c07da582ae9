"""Properties of characters in this Python's version of Unicode. A browser may have another one."""

import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

N_CODES = 0x110000
SURROGATES = range(0xD800, 0xE000)


def _of_category(*names: str) -> Callable[[str], bool]:
    return lambda character: unicodedata.category(character).startswith(names)


PROPERTIES: dict[str, Callable[[str], bool]] = {
    "upper": str.isupper,
    "lower": str.islower,
    "digit": str.isdigit,
    "decimal": str.isdecimal,
    "numeric": str.isnumeric,
    "alpha": str.isalpha,
    "alnum": str.isalnum,
    "title": _of_category("Lt"),
    "punctuation": _of_category("P"),
    "dropped": _of_category("Mn", "Cf"),
    "mark": _of_category("Mc", "Me"),
}
"""The properties by name, `characters.js` has the same names."""


@cache
def find_properties() -> dict[str, str]:
    """Return the code points of each property, see `join_ranges`."""
    characters = list(map(chr, range(N_CODES)))
    return {
        name: join_ranges(i for i, character in enumerate(characters) if holds(character))
        for name, holds in PROPERTIES.items()
    }


def join_ranges(codes: Iterable[int]) -> str:
    """Return ascending code points as gaps and lengths of their ranges, in base 36."""
    found = np.fromiter(codes, "int64")
    if not len(found):
        return ""
    is_first = np.diff(found, prepend=-2) > 1
    starts, stops = found[is_first], found[np.append(is_first[1:], True)] + 1
    gaps = starts - np.append(0, stops[:-1])
    numbers = np.column_stack([gaps, stops - starts]).ravel().tolist()
    return ".".join(np.base_repr(number, 36).lower() for number in numbers)


@cache
def find_casefolds() -> dict[str, str]:
    """Return the casefold of the characters whose lower case is another one."""
    codes = (code for code in range(N_CODES) if code not in SURROGATES)
    found = {character: character.casefold() for character in map(chr, codes)}
    return {character: fold for character, fold in found.items() if fold != character.lower()}
