"""Replacements of personal data: labels, surrogates and masks."""

import hmac
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, product

from .folding import fold, fold_character, is_sign

STYLES = ("label", "surrogate", "mask")

_CLASSES = ("aeiou", "bcdfghjklmnpqrstvwxyz", "0123456789")
_BLOCK = 128


class Replacer:
    """Replacements of one style. key: of surrogates, which are equal for equal words and keys."""

    def __init__(self, style: str, key: bytes) -> None:
        if style not in STYLES:
            raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
        self.style, self.key = style, key

    def replace(self, text: str, label: str) -> str:
        """Return the replacement.

        Surrogates and masks keep length, case, blanks and punctuation, and replace each other
        character. A surrogate has characters of the same script, and none in its old place.
        """
        if self.style == "label":
            return f"[{label}]"
        parts: list[str] = []
        for replaced, characters in groupby(text, is_sign):
            word = "".join(characters)
            parts += self._replace_word(word) if replaced else word
        return "".join(parts)

    def _replace_word(self, word: str) -> Iterator[str]:
        if self.style == "mask":
            yield from map(_mask, word)
            return
        digest = hmac.digest(self.key, fold(word).encode(errors="surrogatepass"), "sha256")
        n = -1
        for character in word:
            n += bool(fold_character(character)) or n < 0  # a mark has the number of its letter
            others = _find_others(character)
            yield others[digest[n % len(digest)] % len(others)]


def _mask(character: str) -> str:
    if character.isnumeric():
        return "#"
    return "X" if character.isupper() else "x"


@lru_cache(1 << 16)
def _find_others(character: str) -> str:
    """Return the characters that may take the place of one, in an order of its own.

    They have the same case. Cased letters that fold to Latin, and digits, become letters and digits
    of ASCII; all others have the block, script and category of the character.
    """
    lower = character.lower()
    lower = lower if len(lower) == 1 else character
    folded = fold_character(character)
    is_cased = lower != character or character != character.upper() or character.islower()
    category = unicodedata.category(character)
    if character.isdigit() or (category != "Lt" and (is_cased or character.isupper())):
        plain = folded[:1]
        if plain not in "".join(_CLASSES) and _script(character) == "LATIN":
            plain = "x"
        of_kind = next((kind for kind in _CLASSES if plain and plain in kind), "")
        at = of_kind.find(plain)
        others = "".join(x for x in of_kind[at + 1 :] + of_kind[:at] if x not in folded)
        if others:
            return others.upper() if character.isupper() else others
    # Letters with case are chosen in lower case, so that equal words have equal surrogates.
    has_pair = category in ("Lu", "Ll") and _has_pair(lower)
    lower = lower if has_pair else character
    start, kind = ord(lower) & -_BLOCK, unicodedata.category(lower)
    case = lower.islower(), lower.isupper()
    # A letter without another of its kind, such as a sign of repetition, becomes any letter.
    for kinds, script in product((kind, kind[0]), (_script(lower), None)):
        pool = _find_pool(start, kinds, script, case, has_pair)
        found = [
            x
            for x in pool
            if _differ(folded, fold_character(x)) and _differ(_decompose(lower), _decompose(x))
        ]
        if found:
            place = sum(x < lower for x in found)
            others = "".join(found[place:] + found[:place])
            return others.upper() if has_pair and character.isupper() else others
    other = "o" if "x" in folded else "x"
    return other.upper() if character.isupper() else other


@lru_cache(1 << 12)
def _find_pool(
    start: int, kind: str, script: str | None, case: tuple[bool, bool], has_pair: bool
) -> str:
    """Return the characters of a block, category and case. script: None for any."""
    return "".join(
        x
        for x in map(chr, range(start, start + _BLOCK))
        if unicodedata.category(x).startswith(kind)
        and script in (None, _script(x))
        and (x.islower(), x.isupper()) == case
        and (not has_pair or _has_pair(x))
    )


def _has_pair(lower: str) -> bool:
    """Return whether a character has one in upper case that has it in lower case."""
    upper = lower.upper()
    return len(upper) == 1 and upper != lower == upper.lower()


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]


def _decompose(character: str) -> str:
    return unicodedata.normalize("NFD", character)


def _differ(one: str, other: str) -> bool:
    return not one or not other or (one not in other and other not in one)
