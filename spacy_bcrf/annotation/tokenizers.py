"""Tokenizers by character, by regular expression and by kind of character; copies of tokens.

No token of these tokenizers has white space at an edge, except tokens of white space alone.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import LEMMA, MORPH, NORM, ORTH, POS, SPACY, TAG  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.util import DummyTokenizer, registry
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
_PRIVATE = range(0xF0000, 0xFFFFE)
"""Code points that texts hardly have. No batch has them all."""
_KEPT = 1 << 16
"""The most hashes that a tokenizer keeps."""


def copy_words(doc: Doc, vocab: Vocab, **more: Any) -> Doc:
    """Return a document with the same words and spaces, without annotation but `more`."""
    spaces = [bool(token.whitespace_) for token in doc]
    return Doc(vocab, words=[token.text for token in doc], spaces=spaces, **more)


def make_char_tokenizer() -> Callable[[Language], "CharTokenizer"]:
    """`spacy-bcrf.CharTokenizer.v1`: one token per character."""
    return lambda nlp: CharTokenizer(nlp.vocab)


class CharTokenizer(DummyTokenizer):
    """Tokenizer with one token per extended grapheme cluster (Unicode Standard Annex 29).

    A cluster keeps combining marks, Hangul jamo, flags, skin tones and joined emoji together. Marks
    are Python's Unicode categories. Unlike in the annex, a zero-width joiner joins any next
    character except whitespace. A single space after a token belongs to the token, as in spaCy.
    Each other run of whitespace is one token. `doc.text` always equals the input text.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._hashes = _Hashes(vocab)

    def __call__(self, text: str) -> Doc:
        """Tokenize a text in linear time. ValueError naming the position of a lone surrogate."""
        return self._hashes.make_doc(*self.split(text))

    def split(self, text: str) -> tuple[list[str], list[bool]]:
        """Return the tokens of a text, and whether a space belongs to each. ValueError as above."""
        try:
            text.encode("utf8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"character {error.start} of the text is the lone surrogate {text[error.start]!r}; "
                "decode the text with its correct encoding"
            ) from None
        if not _joining_characters().isdisjoint(text):
            return _split(cluster_pattern(), text)
        if _WHITESPACE.search(text):
            return _split(_CHARACTERS, text)
        return list(text), [False] * len(text)

    def read(self, texts: Sequence[str]) -> "Characters":
        """Return the tokens of texts as arrays. ValueError as above."""
        text = "".join(texts)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "uint32")
        if not _is_special()[codes].any():
            ends = np.arange(1, len(codes) + 1)
            lengths = np.array([len(text) for text in texts], dtype="int32")
            hashes = self._hashes.of_codes(codes)
            return Characters(codes, hashes, np.zeros(len(codes), bool), ends - 1, ends, lengths)
        parts = [self.split(text) for text in texts]
        tokens = list(chain.from_iterable(words for words, _ in parts))
        n = len(tokens)
        sizes = np.fromiter(map(len, tokens), "int64", n)
        spaces = np.fromiter(chain.from_iterable(spaces for _, spaces in parts), bool, n)
        ends = (sizes + spaces).cumsum() - spaces
        return Characters(
            codes,
            np.fromiter(map(self._hashes.__getitem__, tokens), "uint64", n),
            np.fromiter(map(str.isspace, tokens), bool, n),
            ends - sizes,
            ends,
            np.array([len(words) for words, _ in parts], dtype="int32"),
        )


class Characters(NamedTuple):
    """The N tokens of B texts.

    codes: uint32, the code points of all texts. hashes: uint64 (N,). is_space: bool (N,). starts,
    ends: (N,) code points, without a trailing space. lengths: int32 (B,) numbers of tokens.
    """

    codes: NDArray[np.uint32]
    hashes: NDArray[np.uint64]
    is_space: NDArray[np.bool_]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    lengths: NDArray[np.int32]

    def merge(self, first: NDArray[np.int64]) -> list[list[str]]:
        """Return the words of each text. first: the first token of each word, (W,)."""
        starts, ends = self.starts[first], self.ends[np.append(first[1:], len(self.ends)) - 1]
        # One `split` is several times as fast as a slice a word. So mark the end of each word.
        free = next(code for code in _PRIVATE if not (self.codes == code).any())
        codes = self.codes.copy()
        is_gap = ends < np.append(starts[1:], len(codes))
        codes[ends[is_gap]] = free
        codes = np.insert(codes, ends[~is_gap], free)
        words = codes.tobytes().decode("utf-32-le").split(chr(free))
        bounds = first.searchsorted(self.lengths.cumsum())
        return [words[a:b] for a, b in pairwise([0, *bounds.tolist()])]


class _Hashes(dict[str, int]):
    """Map from words to their hashes. It adds words to a vocabulary, and keeps `_KEPT` hashes."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab
        # Zeros need no memory until they change.
        self._by_code = np.zeros(sys.maxunicode + 1, dtype="uint64")

    def __missing__(self, word: str) -> int:
        found: int = self._vocab.strings.add(word)
        if len(self) < _KEPT:
            self[word] = found
        return found

    def __reduce__(self) -> tuple[type["_Hashes"], tuple[Vocab]]:
        return _Hashes, (self._vocab,)

    def make_doc(self, words: list[str], spaces: list[bool]) -> Doc:
        """Return a document. spaces: whether a space belongs to each word."""
        if self._vocab.in_memory_zone:  # type: ignore[attr-defined]
            # The zone forgets its strings in the end.
            return Doc(self._vocab, words=words, spaces=spaces)
        # spaCy takes hashes three times as fast as strings.
        hashes: Any = list(map(self.__getitem__, words))
        return Doc(self._vocab, words=hashes, spaces=spaces)

    def of_codes(self, codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Return the hashes of characters (N,). codes: (N,)."""
        hashes = self._by_code[codes]
        if not hashes.all():
            new = np.unique(codes[hashes == 0])
            self._by_code[new] = [self[chr(code)] for code in new.tolist()]
            hashes = self._by_code[codes]
        return hashes


def _split(pattern: re.Pattern[str], text: str) -> tuple[list[str], list[bool]]:
    """Return the words of a pattern with two groups, a word and its trailing space."""
    found = pattern.findall(text)
    return [word for word, _ in found], [bool(space) for _, space in found]


_WHITESPACE = re.compile(r"\s")
EDGES = re.compile(r"(\s+|\S(?:.*?\S)??(?=\s*\Z))( )?", re.DOTALL)
"""Finds white space at the edges of a piece, and what is between."""
_CHARACTERS = re.compile(r"(\s+|.)( )?", re.DOTALL)
"""Finds the same as `cluster_pattern` in a text without any of the `_joining_characters`."""


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
def _is_special() -> NDArray[np.bool_]:
    """Return whether a code point needs `split`: whitespace, a surrogate, a part of a cluster."""
    special = np.zeros(sys.maxunicode + 1, dtype=bool)
    special[[ord(character) for character in _joining_characters()]] = True
    special[[code for code in range(_LAST_MARK) if chr(code).isspace()]] = True
    special[0xD800:0xE000] = True
    return special


@cache
def _joining() -> str:
    """Return a pattern of the characters that join their predecessor."""
    basic = "".join(mark for mark in _marks() if mark <= "\uffff")
    astral = "".join(mark for mark in _marks() if mark > "\uffff") + _set_of(_ASTRAL_JOINERS)
    # The lookahead makes matching four times faster: `re` tests sets outside the basic plane
    # character by character.
    return f"(?:[{basic}{_JOINERS}]|(?=[\U00010000-\U0010ffff])[{astral}])"


@cache
def cluster_pattern(word: str = "") -> re.Pattern[str]:
    """Return a pattern with two groups: a cluster or whitespace run, and its trailing space.

    word: an alternative to a cluster, which ends with "|".
    """
    joining = _joining()
    flag = f"[{_set_of(_FLAGS)}]{{2}}"
    leading, syllable = f"[{_set_of(_LEADING_JAMO)}]", f"[{_set_of([*_SYLLABLES, *_VOWEL_JAMO])}]"
    hangul = f"(?:{leading}+{syllable}?|{syllable})[{_set_of(_JAMO)}]*"
    joined = f"(?:{joining}(?:(?<=\u200d)(?:{flag}|\\S))?)*"
    return re.compile(
        rf"({word}\s+(?!{joining})|(?:{flag}|{hangul}|.){joined})( (?!{joining}))?", re.DOTALL
    )


@cache
def part_pattern(capitals: bool = False) -> re.Pattern[str]:
    """Return a pattern with two groups: a part of a token, and its trailing space.

    A part is a run of letters with their marks, a run of digits, or as in `cluster_pattern`.
    capitals: whether a capital begins a part, except behind another capital.
    """
    joined = f"{_joining()}*"
    if not capitals:
        return cluster_pattern(rf"(?:[^\W\d_]{joined})+|(?:\d{joined})+|")
    capital, small = f"[{_capitals()}]{joined}", rf"(?![{_capitals()}])[^\W\d_]{joined}"
    return cluster_pattern(rf"(?:{capital})+(?:{small})*|(?:{small})+|(?:\d{joined})+|")


@cache
def _capitals() -> str:
    """Return the inside of a character set of all capitals in the basic plane."""
    codes = [code for code in range(0x10000) if chr(code).isupper() or chr(code).istitle()]
    known = {*codes}
    starts = [code for code in codes if code - 1 not in known]
    ends = [code for code in codes if code + 1 not in known]
    return _set_of(zip(starts, ends, strict=True))


def make_pattern_tokenizer(pattern: str) -> Callable[[Language], "PatternTokenizer"]:
    """`spacy-bcrf.PatternTokenizer.v1`: a regular expression finds the tokens."""
    return lambda nlp: PatternTokenizer(nlp.vocab, pattern)


class PatternTokenizer(DummyTokenizer):
    """Tokenizer whose tokens begin at the matches of a regular expression.

    A token goes on up to the next match, so it also has the signs that no match has. White space at
    its edges is a token of its own, except one space behind it, its `whitespace_`. `doc.text`
    always equals the input text. A match may be empty, as of a look-ahead.
    """

    def __init__(self, vocab: Vocab, pattern: str) -> None:
        """pattern: ValueError naming the position if it is no regular expression."""
        self.vocab = vocab
        self._hashes = _Hashes(vocab)
        try:
            self.pattern = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(f"the tokenizer's pattern {pattern!r}: {error}") from error

    def __call__(self, text: str) -> Doc:
        # An empty match may share its start with the next one, or the end of the text.
        starts = list(dict.fromkeys(map(re.Match.start, self.pattern.finditer(text))))
        words: list[str] = []
        spaces: list[bool] = []
        for start, end in pairwise([0, *starts[1:], len(text)]):
            found, followed = _split(EDGES, text[start:end])
            words += found
            spaces += followed
        return self._hashes.make_doc(words, spaces)


def make_split_tokenizer(
    tokenizer: Callable[[Language], Callable[[str], Doc]] | None = None,
    capitals: bool = False,
) -> Callable[[Language], "SplitTokenizer"]:
    """`spacy-bcrf.SplitTokenizer.v1`: tokens of another tokenizer, split by kinds of characters.

    tokenizer: makes the other one, by default the language's. ValueError for one of another
    language. capitals: see `SplitTokenizer`.
    """

    def make(nlp: Language) -> SplitTokenizer:
        module = getattr(tokenizer, "__module__", "").split(".")
        if module[:2] == ["spacy", "lang"] and nlp.lang not in module:
            raise ValueError(
                f"[nlp.tokenizer] the tokenizer of {'.'.join(module)} is for another language than "
                f"the pipeline's, {nlp.lang!r}; expected one of this language, or null for its own"
            )
        return SplitTokenizer(nlp.vocab, (tokenizer or _of_language(nlp))(nlp), capitals)

    return make


def _of_language(nlp: Language) -> Callable[[Language], Callable[[str], Doc]]:
    config = {"tokenizer": nlp.default_config["nlp"]["tokenizer"]}
    found: Callable[[Language], Callable[[str], Doc]] = registry.resolve(config)["tokenizer"]
    return found


class SplitTokenizer(DummyTokenizer):
    """Tokenizer that splits the tokens of another one, so that annotated characters fit.

    A token is a run of letters, a run of digits, or one other character. So `nhc-150679` and `H.`,
    which are tokens of spaCy, become three and two. `doc.text` always equals the input text.

    tokenizer: the other one, whose rules may be changed. It is saved with the pipeline. capitals:
    whether a capital behind a small letter begins a token too, as in `#MarriedLife`.
    """

    def __init__(self, vocab: Vocab, tokenizer: Any, capitals: bool = False) -> None:
        self.vocab, self.tokenizer, self.capitals = vocab, tokenizer, capitals
        self._parts = _Parts(vocab, capitals)
        for name in {"initialize", "memory_zone"}.intersection(dir(tokenizer)):
            setattr(self, name, getattr(tokenizer, name))

    def __call__(self, text: str) -> Doc:
        doc = self.tokenizer(text)
        values: Any = doc.to_array([ORTH, SPACY])
        hashes, followed = values.T.tolist()
        parts = map(self._parts.__getitem__, hashes)
        cut = [(i, found) for i, found in enumerate(parts) if found is not None]
        if not cut:
            return doc
        words: Any = []
        spaces: list[bool] = []
        sizes = np.ones(len(doc), "int64")
        last = 0
        for i, (of_token, inner) in cut:
            words += hashes[last:i]
            words += of_token
            spaces += followed[last:i]
            spaces += inner
            spaces.append(followed[i])
            sizes[i] = len(of_token)
            last = i + 1
        words += hashes[last:]
        spaces += followed[last:]
        # spaCy takes hashes three times as fast as strings.
        made = Doc(self.vocab, words=words, spaces=spaces, user_data=doc.user_data)
        _copy_annotation(doc, made, sizes, type(self.tokenizer) is Tokenizer)
        return made

    def to_bytes(self, **options: Any) -> bytes:
        saved: bytes = self.tokenizer.to_bytes(**options)
        return saved

    def from_bytes(self, data: bytes, **options: Any) -> "SplitTokenizer":
        self.tokenizer.from_bytes(data, **options)
        return self

    def to_disk(self, path: str | Path, **options: Any) -> None:
        self.tokenizer.to_disk(path, **options)

    def from_disk(self, path: str | Path, **options: Any) -> "SplitTokenizer":
        self.tokenizer.from_disk(path, **options)
        return self


class _Parts(dict[int, tuple[list[int], list[bool]] | None]):
    """Map from the hash of a token to the hashes of its parts, and whether a space follows each.

    The space behind the last part is left out. None for a token that stays whole. It keeps `_KEPT`
    tokens, and none of a memory zone, which forgets its strings.
    """

    def __init__(self, vocab: Vocab, capitals: bool) -> None:
        self._vocab, self._capitals = vocab, capitals

    def __missing__(self, token: int) -> tuple[list[int], list[bool]] | None:
        strings = self._vocab.strings
        words, spaces = _split(part_pattern(self._capitals), strings[token])
        if spaces[-1]:
            words, spaces = [*words, " "], [*spaces[:-1], False, False]
        found = (list(map(strings.add, words)), spaces[:-1]) if len(words) > 1 else None
        if len(self) < _KEPT and not self._vocab.in_memory_zone:  # type: ignore[attr-defined]
            self[token] = found
        return found

    def __reduce__(self) -> tuple[type["_Parts"], tuple[Vocab, bool]]:
        return _Parts, (self._vocab, self._capitals)


def fits_parts(doc: Doc, start: int, end: int, capitals: bool = False) -> bool:
    """Whether `SplitTokenizer` would split tokens where characters of a document start and end."""
    touched = doc.char_span(start, end, alignment_mode="expand")
    bounds = {
        token.idx + offset
        for token in touched or ()
        for part in part_pattern(capitals).finditer(token.text)
        for offset in part.span(1)
    }
    return bounds >= {start, end}


def _copy_annotation(doc: Doc, made: Doc, sizes: NDArray[np.int64], has_norms: bool) -> None:
    """Copy the annotation of a tokenizer to a document of its tokens' parts, of these numbers (n,).

    All parts get tags. Only whole tokens get norms and lemmas. has_norms: whether norms are all.
    """
    ends = sizes.cumsum() - 1
    norms = doc.to_array(NORM)
    differ = (sizes == 1) & (norms != made.to_array(NORM)[ends])
    for i in np.flatnonzero(differ).tolist():
        made[int(ends[i])].norm_ = doc[i].norm_
    if not has_norms and any(map(doc.has_annotation, ("TAG", "POS", "MORPH", "LEMMA"))):
        attributes = [TAG, POS, MORPH, LEMMA]
        values: Any = doc.to_array(attributes)
        values[sizes > 1, -1] = 0
        made.from_array(attributes, values.repeat(sizes, axis=0))
