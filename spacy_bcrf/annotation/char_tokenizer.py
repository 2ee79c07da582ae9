"""`spacy-bcrf.CharTokenizer.v1`: one token per character, for `bcrf_segmenter`."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from spacy.language import Language
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.util import DummyTokenizer
from spacy.vocab import Vocab

Range = tuple[int, int]

# These characters join their predecessor, but their Unicode category is not "mark": zero-width
# joiner and non-joiner, halfwidth sound marks, Thai and Lao AM.
_JOINERS = "\u200c\u200d\uff9e\uff9f\u0e33\u0eb3"
# The same outside the basic plane: skin tones, tags, variation selectors.
_ASTRAL_JOINERS: list[Range] = [(0x1F3FB, 0x1F3FF), (0xE0020, 0xE007F), (0xE0100, 0xE01EF)]
# Above this code point only the variation selectors of _ASTRAL_JOINERS are marks.
_LAST_MARK = 0x1FFFF
_FLAGS: list[Range] = [(0x1F1E6, 0x1F1FF)]
_LEADING_JAMO: list[Range] = [(0x1100, 0x115F), (0xA960, 0xA97C)]
_VOWEL_JAMO: list[Range] = [(0x1160, 0x11A7), (0xD7B0, 0xD7C6)]
_JAMO: list[Range] = [*_VOWEL_JAMO, (0x11A8, 0x11FF), (0xD7C7, 0xD7FB)]
"""Jamo that follow another: vowels and finals."""
_SYLLABLES: list[Range] = [(0xAC00, 0xD7A3)]
_KEPT = 1 << 16
"""The most hashes that a tokenizer keeps."""


def make_char_tokenizer() -> Callable[[Language], "CharTokenizer"]:
    """Return a function that makes the tokenizer of a pipeline."""
    return lambda nlp: CharTokenizer(nlp.vocab)


class CharTokenizer(DummyTokenizer):
    """Tokenizer with one token per extended grapheme cluster (Unicode Standard Annex 29).

    A cluster keeps combining marks, Hangul jamo, flags, skin tones and joined emoji together.
    Python's Unicode categories decide which characters are marks. Unlike in the annex, a zero-width
    joiner joins any next character except whitespace.

    A single space after a token belongs to the token, as in spaCy. Each other run of whitespace is
    one token. `doc.text` always equals the input text.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._hashes = _Hashes(vocab.strings)

    def __call__(self, text: str) -> Doc:
        """Tokenize a text in linear time.

        Raises ValueError naming the position of a lone surrogate, which spaCy cannot store.
        """
        try:
            text.encode("utf8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"character {error.start} of the text is the lone surrogate {text[error.start]!r}; "
                "decode the text with its correct encoding"
            ) from None
        if not _joining_characters().isdisjoint(text):
            words, spaces = _split(_clusters(), text)
        elif _WHITESPACE.search(text):
            words, spaces = _split(_CHARACTERS, text)
        else:
            words, spaces = list(text), [False] * len(text)
        if self.vocab.in_memory_zone:  # type: ignore[attr-defined]
            # The zone forgets its strings in the end.
            return Doc(self.vocab, words=words, spaces=spaces)
        # spaCy takes hashes three times as fast as strings.
        hashes: Any = list(map(self._hashes.__getitem__, words))
        return Doc(self.vocab, words=hashes, spaces=spaces)

    def __reduce__(self) -> tuple[type["CharTokenizer"], tuple[Vocab]]:
        return CharTokenizer, (self.vocab,)


class _Hashes(dict[str, int]):
    """Map from words to their hashes. It adds words to a string store, and keeps `_KEPT` hashes."""

    def __init__(self, strings: StringStore) -> None:
        self._strings = strings

    def __missing__(self, word: str) -> int:
        found: int = self._strings.add(word)
        if len(self) < _KEPT:
            self[word] = found
        return found


def _split(pattern: re.Pattern[str], text: str) -> tuple[list[str], list[bool]]:
    """Return the words of a pattern with two groups, a word and its trailing space."""
    found = pattern.findall(text)
    return [word for word, _ in found], [bool(space) for _, space in found]


_WHITESPACE = re.compile(r"\s")
_CHARACTERS = re.compile(r"(\s+|.)( )?", re.DOTALL)
"""Finds the same as `_clusters` in a text without any of the `_joining_characters`."""


@cache
def _marks() -> list[str]:
    """Return all combining marks, up to `_LAST_MARK`."""
    return [chr(c) for c in range(_LAST_MARK + 1) if unicodedata.category(chr(c))[0] == "M"]


@cache
def _joining_characters() -> frozenset[str]:
    """Return all characters that can be part of a cluster of several, except Hangul syllables."""
    ranges = [*_ASTRAL_JOINERS, *_FLAGS, *_LEADING_JAMO, *_JAMO]
    return frozenset([*_marks(), *_JOINERS, *(chr(c) for a, b in ranges for c in range(a, b + 1))])


def _set_of(ranges: Iterable[Range]) -> str:
    """Return the inside of a character set of a regular expression."""
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@cache
def _clusters() -> re.Pattern[str]:
    """Return a pattern with two groups: a cluster or whitespace run, and its trailing space."""
    basic = "".join(mark for mark in _marks() if mark <= "\uffff")
    astral = "".join(mark for mark in _marks() if mark > "\uffff") + _set_of(_ASTRAL_JOINERS)
    # The lookahead makes matching four times faster: `re` tests sets outside the basic plane
    # character by character.
    joining = f"(?:[{basic}{_JOINERS}]|(?=[\U00010000-\U0010ffff])[{astral}])"
    flag = f"[{_set_of(_FLAGS)}]{{2}}"
    leading, syllable = f"[{_set_of(_LEADING_JAMO)}]", f"[{_set_of([*_SYLLABLES, *_VOWEL_JAMO])}]"
    hangul = f"(?:{leading}+{syllable}?|{syllable})[{_set_of(_JAMO)}]*"
    joined = f"(?:{joining}(?:(?<=\u200d)(?:{flag}|\\S))?)*"
    return re.compile(
        rf"(\s+(?!{joining})|(?:{flag}|{hangul}|.){joined})( (?!{joining}))?", re.DOTALL
    )
