"""Tokens of a text that arrives in pieces: those that no later character can change.

A stream takes a piece by `feed`, which returns the tokens that are final, None without any, and
raises ValueError for a lone surrogate and `LONGEST` characters without a blank; it then stays as it
was. `close` returns the rest. `mark` returns a function that takes back the later pieces. The
tokens of the documents are those of the whole text.

spaCy's tokenizer splits at whitespace first: a word is final at the blank behind it, unless its end
may begin a special case that goes on behind the blank. A cluster of `CharTokenizer` is final when
the next one has begun.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import accumulate, islice
from typing import Any

from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.vocab import Vocab

from .char_tokenizer import CharTokenizer

LONGEST = 1_000_000
"""Characters without a blank that a stream keeps. It is spaCy's own limit of a text."""

TRIES = 20
"""Places at which a piece may end the final tokens. More would cost quadratic time."""


_READERS = ("prefix_search", "suffix_search", "infix_finditer", "token_match", "url_match")
_BLANK = re.compile(r"\s")


def stream_text(tokenizer: Callable[[str], Doc]) -> "_Characters | _Words":
    """Return the stream of a tokenizer. TypeError for a tokenizer of unknown look-ahead."""
    if isinstance(tokenizer, CharTokenizer):
        return _Characters(tokenizer)
    if type(tokenizer) is Tokenizer:
        return _Words(tokenizer)
    raise TypeError(
        f"a stream of text needs spaCy's Tokenizer or CharTokenizer, got "
        f"{type(tokenizer).__name__}: which of its tokens later characters change is unknown. Feed "
        "documents of tokens"
    )


def check_text(text: str) -> None:
    """Raise ValueError naming the position of a lone surrogate, which spaCy cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} of the piece is the lone surrogate {text[error.start]!r}; "
            "decode the text with its correct encoding"
        ) from None


class _Characters:
    def __init__(self, tokenizer: CharTokenizer) -> None:
        self._tokenizer, self._rest = tokenizer, ""

    def feed(self, text: str) -> Doc | None:
        check_text(text)
        self._rest += text
        words, spaces = self._tokenizer.split(self._rest)
        if len(words) < 2:
            if len(self._rest) > LONGEST:
                self._rest = self._rest[: len(self._rest) - len(text)]
                raise _too_long()
            return None
        self._rest = words[-1] + " " * spaces[-1]
        return Doc(self._tokenizer.vocab, words=words[:-1], spaces=spaces[:-1])

    def close(self) -> Doc:
        return self._tokenizer(self._rest)

    def mark(self) -> Callable[[], None]:
        return partial(setattr, self, "_rest", self._rest)


class _Words:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._parts: list[str] = []  # a text of 10 MB without a blank is joined once
        self._size = 0
        readers = [getattr(tokenizer, name) for name in _READERS]
        self._plain = Tokenizer(Vocab(), {}, **dict(zip(_READERS, readers, strict=True)))
        self._rests, self._ends, self._sizes = _find_rests(tuple(tokenizer.rules), *readers)
        # At most one blank stands between two tokens of a case.
        self._reach = 2 * max(map(len, tokenizer.rules), default=0) + 20

    def feed(self, text: str) -> Doc | None:
        check_text(text)
        if not text:
            return None
        was_blank = bool(self._parts) and self._parts[-1][-1].isspace()
        is_new = not text.isspace() if was_blank else _BLANK.search(text) is not None
        if not is_new and self._size + len(text) > LONGEST:
            raise _too_long()
        self._parts.append(text)
        self._size += len(text)
        if not is_new:
            return None
        rest = "".join(self._parts)
        for cut in islice(_find_cuts(rest), TRIES):
            if not self._may_go_on(rest[:cut], rest[cut:]):
                self._parts, self._size = [rest[cut:]] * (cut < len(rest)), len(rest) - cut
                return self._tokenizer(rest[:cut])
        self._parts = [rest]
        return None

    def close(self) -> Doc:
        return self._tokenizer("".join(self._parts))

    def mark(self) -> Callable[[], None]:
        parts, n, size = self._parts, len(self._parts), self._size

        def reset() -> None:
            self._parts, self._size = parts[:n], size

        return reset

    def _may_go_on(self, text: str, rest: str) -> bool:
        """Return whether a special case may begin in a text and end behind it, in the rest."""
        end = text.rstrip()[-2:]
        # Most words end as no head does. A head of several words may have a blank there.
        if not (end in self._ends or end[-1:] in self._ends or end[:1].isspace()):
            return False
        before, after = ("".join(x.split()) for x in (text[-self._reach :], rest[: self._reach]))
        return any(
            (other.startswith(after) or after.startswith(other))
            # Within letters, the tokens show whether the head begins one.
            and (not before[-size - 1 :][:2].isalpha() or _is_start(self._tokenizer(text), size))
            and (other.startswith(after) or self._may_end(rest, len(other)))
            for size in self._sizes
            for other in self._rests.get(before[-size:], ())
        )

    def _may_end(self, text: str, size: int) -> bool:
        """Return whether a token may end so many characters behind the start, without blanks."""
        words = text.split()
        for word in words if text[-1].isspace() else words[:-1]:
            if size <= len(word):
                # A special case can join tokens, of which another one needs a part.
                found = self._tokenizer(word), self._plain(word)
                return any(size in accumulate(map(len, tokens)) for tokens in found)
            size -= len(word)
        return True


def _is_start(doc: Doc, size: int) -> bool:
    """Return whether a word of a token starts so many characters before the end, without blanks."""
    for token in reversed(doc):
        for word in reversed(token.text.split()):
            size -= len(word)
            if size <= 0:
                return size == 0
    return False


def _find_cuts(text: str) -> Iterator[int]:
    """Yield the places at which the tokenizer starts anew, the last one first.

    They are behind the blank that belongs to a word, before other whitespace, and before a word.
    """
    is_space = text[-1].isspace()
    for i in range(len(text) - 1, 0, -1):
        was_space, is_space = is_space, text[i - 1].isspace()
        if was_space != is_space:
            yield i + 1 if text[i] == " " else i


@lru_cache(8)
def _find_rests(
    cases: tuple[str, ...], *readers: Any
) -> tuple[dict[str, list[str]], set[str], list[int]]:
    """Return the rests of special cases of several tokens by their heads, all without blanks.

    Also returns the ends of the heads and their sizes. A head is the first tokens of a case. spaCy
    looks for these cases in the tokens of the whole text, across blanks. readers: `_READERS` of
    the tokenizer.
    """
    plain = Tokenizer(Vocab(), {}, **dict(zip(_READERS, readers, strict=True)))
    rests: dict[str, list[str]] = {}
    for case in cases:
        head, words = "", [word for token in plain(case) for word in token.text.split()]
        for word in words[:-1]:
            head += word
            rests.setdefault(head, []).append("".join(case.split())[len(head) :])
    return rests, {head[-2:] for head in rests}, sorted({len(head) for head in rests})


def _too_long() -> ValueError:
    return ValueError(
        f"the text has more than {LONGEST:,} characters without a blank, the most that a stream "
        "keeps; expected text of words"
    )
