"""Pieces of a text that arrives bit by bit, whose tokens no later character can change.

A stream takes text by `feed`, which returns the pieces that are final, and raises ValueError for a
lone surrogate and `LONGEST` characters without a blank; it then stays as it was. `close` returns
the rest. `state` can be set back to an earlier one. Tokenizing each piece alone gives the tokens of
the whole text. A piece is a word with its blank wherever possible, so that callers can keep the
tokens of words.

spaCy's tokenizer splits at whitespace first: a word is final at the blank behind it, unless its end
may begin a special case that goes on behind the blank. A cluster of `CharTokenizer` is final when
the next one has begun.
"""

import re
from collections.abc import Callable, Iterator
from itertools import accumulate, islice, pairwise
from typing import Any

from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.vocab import Vocab

from .tokenizers import CharTokenizer, SplitTokenizer

LONGEST = 1_000_000
"""Characters without a blank that a stream keeps. It is spaCy's own limit of a text."""

TRIES = 20
"""Places at which a piece may end the final tokens. More would cost quadratic time."""

MOST_WORDS = 10_000
"""Number of words whose tokens and special cases streams keep."""

LONG_WORD = 40
"""Characters of a word that is not kept."""

_READERS = ("prefix_search", "suffix_search", "infix_finditer", "token_match", "url_match")
_BLANK = re.compile(r"\s")


def stream_text(tokenizer: Callable[[str], Doc]) -> "_Characters | _Words":
    """Return the stream of a tokenizer. TypeError for a tokenizer of unknown look-ahead."""
    while isinstance(tokenizer, SplitTokenizer):  # it splits token by token
        tokenizer = tokenizer.tokenizer
    if isinstance(tokenizer, CharTokenizer):
        return _Characters(tokenizer)
    if type(tokenizer) is Tokenizer:
        return _Words(tokenizer)
    raise TypeError(
        f"a stream of text needs spaCy's Tokenizer, CharTokenizer or SplitTokenizer, got "
        f"{type(tokenizer).__name__}: which of its tokens later characters change is unknown. Feed "
        "documents of tokens"
    )


def check_piece(text: str) -> None:
    """Raise ValueError naming the position of a lone surrogate, which spaCy cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} of the piece is the lone surrogate {text[error.start]!r}; "
            "decode the text with its correct encoding"
        ) from None


class _Characters:
    cases = None

    def __init__(self, tokenizer: CharTokenizer) -> None:
        self._tokenizer, self.state = tokenizer, ""

    def feed(self, text: str) -> list[str]:
        check_piece(text)
        rest = self.state + text
        words, spaces = self._tokenizer.split(rest)
        if len(words) < 2:
            if len(rest) > LONGEST:
                raise _too_long()
            self.state = rest
            return []
        pieces = [word + " " if space else word for word, space in zip(words, spaces, strict=True)]
        self.state = pieces.pop()
        return pieces

    def close(self) -> list[str]:
        rest, self.state = self.state, ""
        return [rest]


class _Cases:
    """The special cases of a tokenizer of several tokens. spaCy looks for them across blanks.

    rests: the ends of cases, by their heads, all without blanks. A head is the first tokens of a
    case. ends: of heads. sizes: of heads.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._rules, self._readers = dict(tokenizer.rules), _readers(tokenizer)
        self.plain = Tokenizer(Vocab(), {}, **self._readers)
        self.rests: dict[str, list[str]] = {}
        self._inner: dict[str, set[str]] = {}  # first characters of rests, by last words of heads
        for case in self._rules:
            words = [word for t in self.plain(case) for word in t.text.split()]
            for end in range(1, len(words)):
                head, rest = "".join(words[:end]), "".join(words[end:])
                self.rests.setdefault(head, []).append(rest)
                for start in range(end):
                    self._inner.setdefault("".join(words[start:end]), set()).add(rest[0])
        self.ends = {head[-2:] for head in self.rests}
        self.sizes = sorted({len(head) for head in self.rests})
        # At most one blank stands between two tokens of a case.
        self.reach = 2 * max(map(len, self._rules), default=0) + 20
        self.known: dict[str, frozenset[str] | None] = {}  # what `find_next` has returned

    def hold(self, tokenizer: Tokenizer) -> bool:
        """Return whether these are the cases of a tokenizer."""
        return self._rules == tokenizer.rules and self._readers == _readers(tokenizer)

    def find_next(self, word: str, tokenizer: Tokenizer) -> frozenset[str] | None:
        """Return the characters with which a case that begins in a word may go on behind it.

        Return None if `word` is empty or has a blank.
        """
        found = None
        if word and not _BLANK.search(word):
            found = frozenset(self._inner.get(word, ())).union(
                rest[0]
                for size in self.sizes
                for rest in self.rests.get(word[-size:], ())
                if _may_begin(word, size, word, tokenizer)
            )
        if len(self.known) >= MOST_WORDS:
            self.known.clear()
        if len(word) <= LONG_WORD:
            self.known[word] = found
        return found


_known_cases: list[_Cases] = []
"""Keep the last 8 tokenizers. Finding the cases takes longer than tokenizing a short text."""


def _readers(tokenizer: Tokenizer) -> dict[str, Any]:
    return {name: getattr(tokenizer, name) for name in _READERS}


def _find_cases(tokenizer: Tokenizer) -> _Cases:
    for cases in _known_cases:
        if cases.hold(tokenizer):
            return cases
    cases = _Cases(tokenizer)
    _known_cases[:] = [cases, *_known_cases[:7]]
    return cases


class _Words:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self.cases = tokenizer, _find_cases(tokenizer)
        # Parts of a text, joined once if it has 10 MB without a blank; how many of them, as later
        # states share the list; characters; last one.
        self.state: tuple[list[str], int, int, str] = [], 0, 0, ""

    def feed(self, text: str) -> list[str]:
        check_piece(text)
        if not text:
            return []
        parts, n, size, last = self.state
        del parts[n:]
        is_new = not text.isspace() if last.isspace() else _BLANK.search(text) is not None
        if not is_new:
            if size + len(text) > LONGEST:
                raise _too_long()
            parts.append(text)
            self.state = parts, n + 1, size + len(text), text[-1]
            return []
        rest = "".join(parts) + text
        pieces, start, at, known = [], 0, 0, self.cases.known
        for word, after in pairwise(rest.split(" ")):
            at += len(word) + 1
            then = known[word] if word in known else self.cases.find_next(word, self._tokenizer)
            if then is None or (then and (not after or after[0].isspace() or after[0] in then)):
                continue
            pieces.append(rest[start:at])
            start = at
        if start:
            rest = rest[start:]
        if _BLANK.search(rest):
            for cut in islice(_find_cuts(rest), TRIES):
                if not self._may_go_on(rest[:cut], rest[cut:]):
                    pieces.append(rest[:cut])
                    rest = rest[cut:]
                    break
        self.state = [rest], 1, len(rest), rest[-1:]
        return pieces

    def close(self) -> list[str]:
        parts, n, *_ = self.state
        self.state = [], 0, 0, ""
        return ["".join(parts[:n])]

    def _may_go_on(self, text: str, rest: str) -> bool:
        """Return whether a special case may begin in a text and end behind it, in the rest."""
        end = text.rstrip()[-2:]
        # Most words end as no head does. A head of several words may have a blank there.
        if not (end in self.cases.ends or end[-1:] in self.cases.ends or end[:1].isspace()):
            return False
        before, after = (
            "".join(x.split()) for x in (text[-self.cases.reach :], rest[: self.cases.reach])
        )
        return any(
            (other.startswith(after) or after.startswith(other))
            and _may_begin(before, size, text, self._tokenizer)
            and (other.startswith(after) or self._may_end(rest, len(other)))
            for size in self.cases.sizes
            for other in self.cases.rests.get(before[-size:], ())
        )

    def _may_end(self, text: str, size: int) -> bool:
        """Return whether a token may end `size` characters behind the start, without blanks."""
        words = text.split()
        for word in words if text[-1].isspace() else words[:-1]:
            if size <= len(word):
                # A special case can join tokens, and another case needs a part of them.
                found = self._tokenizer(word), self.cases.plain(word)
                return any(size in accumulate(map(len, tokens)) for tokens in found)
            size -= len(word)
        return True


def _may_begin(before: str, size: int, text: str, tokenizer: Tokenizer) -> bool:
    """Return whether a token may start this number of characters before the end of a text.

    before: the last characters of the text, without blanks.
    """
    if not before[-size - 1 :][:2].isalpha():
        return True
    # Within letters, the tokens show it.
    for token in reversed(tokenizer(text)):
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


def _too_long() -> ValueError:
    return ValueError(
        f"the text has more than {LONGEST:,} characters without a blank, the most that a stream "
        "keeps; expected text of words"
    )
