"""Replacements of personal data: labels, surrogates and masks."""

import hmac
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby, product
from typing import Literal, get_args

from spacy_bcrf.annotation.folding import fold, fold_character, is_sign

from .dates import draw_days, shift_date
from .vault import OfDocument, Vault

Style = Literal["label", "surrogate", "mask", "numbered", "shifted"]
STYLES: tuple[str, ...] = get_args(Style)

_CLASSES = ("aeiou", "bcdfghjklmnpqrstvwxyz", "0123456789")
_BLOCK = 128
_MOST_DRAWS = 20
"""Draws of a surrogate until it differs from the word."""


class Replacer:
    """Replacements of one style. key: of surrogates, which are equal for equal words and keys."""

    def __init__(self, style: str, key: bytes = b"", vault: Vault | None = None) -> None:
        """key: a secret for "surrogate" and "shifted". vault: of "numbered", None for numbers that
        begin anew with each document. ValueError for an unknown style, and without a key.
        """
        if style not in STYLES:
            raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
        if style in ("surrogate", "shifted") and not key:
            raise ValueError("key is empty: surrogates need a secret, such as 32 random bytes")
        self.style, self.key = style, key
        self.vault: Vault | None = None
        self._is_kept = vault is not None
        if style == "numbered":
            self.vault = vault or Vault()
        self._labels: tuple[str, ...] = ()
        self.begin()

    def expect(self, labels: Iterable[str]) -> None:
        """Expect labels: what looks like their placeholders in a text is none."""
        self._labels = tuple(labels)
        if self.vault is not None:
            self.vault.expect(self._labels)

    def begin(self, text: str = "") -> None:
        """Begin a document. text: decides by how many days "shifted" moves its dates.

        Without a text, as in a stream, the key alone decides.
        """
        if self.vault is not None and not self._is_kept:
            self.vault = Vault(self._labels)
        self._known: OfDocument = {}
        if self.style == "shifted":
            digest = hmac.digest(self.key, text.encode(errors="surrogatepass"), "sha256")
            self._days = draw_days(digest)

    def replace(self, text: str, label: str, is_number: bool = False) -> str:
        """Return the replacement. is_number: of JSON, not a string.

        Surrogates and masks keep length, case, blanks and punctuation, and replace each other
        character. A surrogate has characters of the same script, and differs from the word. With
        "shifted", a text that is a date becomes another one in its format, other texts surrogates.
        """
        if self.style == "label":
            return f"[{label}]"
        if self.vault is not None:
            return self.vault.replace(text, label, self._known, is_number)
        if self.style == "shifted" and (date := shift_date(text, self._days)) is not None:
            return date
        parts: list[str] = []
        for replaced, characters in groupby(text, is_sign):
            word = "".join(characters)
            parts += self._replace_word(word) if replaced else word
        return "".join(parts)

    def _replace_word(self, word: str) -> Iterable[str]:
        if self.style == "mask":
            return map(_mask, word)
        folded, new = fold(word), word
        # Each character may be its own surrogate: what never stands at a place would be the truth.
        for n in range(_MOST_DRAWS):
            new = self._draw(word, folded, n)
            if fold(new) != folded:
                return new
        return "x" * len(word)  # signs that have no other of their kind

    def _draw(self, word: str, folded: str, n_before: int) -> str:
        message = folded.encode(errors="surrogatepass") + n_before.to_bytes(1, "big") * (
            n_before > 0
        )
        digest = hmac.digest(self.key, message, "sha512")
        parts, n = [], -1
        for character in word:
            n += bool(fold_character(character)) or n < 0  # a mark has the number of its letter
            kind, at = _find_kind(character), 2 * n % len(digest)
            parts.append(kind[int.from_bytes(digest[at : at + 2], "big") % len(kind)])
        return "".join(parts)


def _mask(character: str) -> str:
    if character.isnumeric():
        return "#"
    return "X" if character.isupper() else "x"


@lru_cache(1 << 16)
def _find_kind(character: str) -> str:
    """Return the characters that may take the place of one, with the case of this one.

    Cased letters that fold to Latin, and digits, become letters and digits of ASCII; all others
    have the block, script and category of the character.
    """
    lower = character.lower()
    lower = lower if len(lower) == 1 else character
    is_cased = lower != character or character != character.upper() or character.islower()
    category = unicodedata.category(character)
    if category == "Cf":
        return character  # invisible; without it, the word is the same
    if category == "Cc":
        return "x"
    if character.isdigit() or (category != "Lt" and (is_cased or character.isupper())):
        plain = fold_character(character)[:1]
        if plain not in "".join(_CLASSES) and _script(character) == "LATIN":
            plain = "x"
        if of_kind := next((kind for kind in _CLASSES if plain and plain in kind), ""):
            return of_kind.upper() if character.isupper() else of_kind
    # Letters with case are chosen in lower case, so that equal words have equal surrogates.
    has_pair = category in ("Lu", "Ll") and _has_pair(lower)
    lower = lower if has_pair else character
    start, kind = ord(lower) & -_BLOCK, unicodedata.category(lower)
    case = lower.islower(), lower.isupper()
    # A letter without another of its kind, such as a sign of repetition, becomes any letter.
    for kinds, script in product((kind, kind[0]), (_script(lower), None)):
        pool = _find_pool(start, kinds, script, case, has_pair)
        if len(pool) > 1:
            return pool.upper() if has_pair and character.isupper() else pool
    return "OX" if character.isupper() else "ox"


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
