"""JSON objects of a file, one per line or all in one list, each with its file and line."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .text import MAX_LINE, CorpusError, Line, scan_lines

_WHITE_SPACE = " \t\r\n"
_SPACES = re.compile(f"[{_WHITE_SPACE}]*")


# The first line of an indented object. A broken line of JSON lines hardly ends so.
_OPEN = re.compile(r"\s*\{\s*|\s*\{.*[,\[{:]\s*")


class Problem(ValueError):
    """Error of a record that cannot be converted.

    reason: the kind of problem, for counts. n_spans: number of the record's spans, None if unknown.
    """

    def __init__(self, reason: str, message: str, n_spans: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.n_spans = reason, n_spans


class Item(NamedTuple):
    """An object of a file. place: file and line. value: the object, or the bad line's problem."""

    place: str
    value: dict[str, Any] | Problem


def read_objects(
    path: Path, advance: Callable[[int], object] = lambda n_bytes: None
) -> Iterator[Item]:
    """Yield the objects of a file: one on each non-blank line, the items of one list, or indented.

    A file whose first line starts with a bracket is a list. If its first line is an open object,
    objects have several lines. One object is in memory at a time, of at most MAX_LINE characters. A
    bad line or item yields a problem. Bytes in a list that are not UTF-8 are half surrogate pairs;
    broken JSON there is a CorpusError. advance: see `scan_lines`.
    """
    pieces = scan_lines(path, advance, in_pieces=True)
    first = next((piece for piece in pieces if piece.text.strip(_WHITE_SPACE)), None)
    if first is None:
        return
    # Lines may be pairs that start with a string, see `as_object`.
    if re.match(r'\s*\[(?!\s*")', first.text):
        yield from _ValueReader(first, pieces).read()
        return
    if first.ends and _OPEN.fullmatch(first.text):
        yield from _ValueReader(first, pieces).read_indented()
        return
    texts: list[str] = []
    n_characters, problem = 0, None
    for piece in chain([first], pieces):
        n_characters += len(piece.text)
        problem = problem or piece.problem
        if n_characters <= MAX_LINE:
            texts.append(piece.text)
        if not piece.ends:
            continue
        text = "".join(texts)
        if n_characters > MAX_LINE or problem or text.strip(_WHITE_SPACE):
            place = f"{path}:{piece.number}"
            yield Item(place, _parse_line(text, n_characters, problem))
        texts.clear()
        n_characters, problem = 0, None


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Problem for broken JSON, another value, repeated keys, infinities."""
    value = _parse(text)
    if not isinstance(value, dict):
        raise _not_an_object(value)
    return value


def _parse(text: str | bytes) -> Any:
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except Problem:
        raise
    except json.JSONDecodeError as error:
        raise Problem(
            "no JSON", f"no JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise Problem("no JSON", _describe(error)) from None


def _parse_line(text: str, n_characters: int, problem: str | None) -> dict[str, Any] | Problem:
    if n_characters > MAX_LINE:
        return Problem(
            "too long", f"more than {MAX_LINE:,} characters; expected one record on each line"
        )
    if problem is not None:
        return Problem("no UTF-8", f"{problem}; expected UTF-8")
    try:
        return as_object(_parse(text))
    except Problem as found:
        return found


def as_object(value: Any) -> dict[str, Any] | Problem:
    """Return an object, also of spaCy 2's pair `[text, {"entities": ..}]`, or a problem."""
    if isinstance(value, dict | Problem):
        return value
    if isinstance(value, list) and len(value) == 2:
        text, fields = value
        if isinstance(text, str) and isinstance(fields, dict) and "text" not in fields:
            return {"text": text, **fields}
    return _not_an_object(value)


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. A parser would keep either value of a repeated key."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((key, n),) = Counter(key for key, _ in pairs).most_common(1)
        raise Problem(
            "repeated key", f"an object has {n} values of {json.dumps(key)[:60]}; expected one"
        )
    return fields


def _check_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Problem("not finite", f"{text[:60]} is not a finite number")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_check_keys, parse_float=_check_finite, parse_constant=_check_finite
)
_UNCHECKED_DECODER = json.JSONDecoder()


def _describe(error: ValueError | RecursionError) -> str:
    """Describe an error of the JSON parser that is no syntax error."""
    if isinstance(error, RecursionError):
        return "no JSON that can be read: nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "no JSON that can be read: not UTF-8"
    return f"no JSON that can be read: {error}"  # for instance an integer of 5,000 digits


def _not_an_object(value: Any) -> Problem:
    return Problem("no object", f"expected an object, got {json.dumps(value)[:60]}")


class _ValueReader:
    """Read the items of a list or indented objects, one at a time. first: the first piece."""

    def __init__(self, first: Line, pieces: Iterator[Line]) -> None:
        self.path, self.pieces = first.path, pieces
        self.text = first.text
        self.position = 0
        self.last_number = first.number
        """Line of the last piece in `text`."""
        self.number, self.counted = first.number, 0
        """A line, and its position in `text`."""

    def read(self) -> Iterator[Item]:
        """Yield the items of a list."""
        self.position = self.text.index("[") + 1
        self._skip_white_space()
        while not self.text.startswith("]", self.position):
            place = f"{self.path}:{self._line_at(self.position)}"
            value = self._decode()
            yield Item(place, as_object(value))
            self._skip_white_space()
            if self.text.startswith(",", self.position):
                self.position += 1
                self._skip_white_space()
            elif not self.text.startswith("]", self.position):
                raise self._error("no JSON: expected a comma or the end of the list")
        self.position += 1
        self._skip_white_space()
        if self.position < len(self.text):
            raise self._error("no JSON: more text after the end of the list")

    def read_indented(self) -> Iterator[Item]:
        """Yield objects with nothing but white space between."""
        self._skip_white_space()
        while self.position < len(self.text):
            place = f"{self.path}:{self._line_at(self.position)}"
            yield Item(place, as_object(self._decode()))
            self._skip_white_space()

    def _decode(self) -> Any:
        """Decode the next item, or a problem. CorpusError for broken JSON, which hides the next."""
        while True:
            try:
                value, end = _decode_at(self.text, self.position)
            except json.JSONDecodeError as error:
                if len(self.text) - self.position > MAX_LINE:
                    raise self._error(f"an item of more than {MAX_LINE:,} characters") from None
                length = error.pos - self.position
                if not self._fill():
                    raise self._error(f"no JSON: {error.msg}", length) from None
            except (ValueError, RecursionError) as error:
                raise self._error(_describe(error)) from None
            else:
                # A number may go on after the text: 1e+5 is no error until its "+".
                is_whole, length = end + 3 < len(self.text), end - self.position
                if is_whole or not self._fill():
                    self.position += length
                    return value

    def _fill(self) -> bool:
        """Drop the text before `position`, and double the rest. False at the end of the file."""
        self._line_at(self.position)
        self.text = self.text[self.position :]
        self.position = self.counted = 0
        texts = [self.text]
        missing = max(len(self.text), 1 << 16)
        while missing > 0 and (piece := next(self.pieces, None)):
            texts += ["\n"] * (piece.number - self.last_number) + [piece.text]
            missing -= len(piece.text) + 1
            self.last_number = piece.number
        self.text = "".join(texts)
        return len(texts) > 1

    def _skip_white_space(self) -> None:
        while True:
            spaces = _SPACES.match(self.text, self.position)
            self.position = spaces.end() if spaces else self.position
            if self.position < len(self.text) or not self._fill():
                return

    def _line_at(self, position: int) -> int:
        """Return the line at a position, which is after that of the last call."""
        self.number += self.text.count("\n", self.counted, position)
        self.counted = position
        return self.number

    def _error(self, message: str, offset: int = 0) -> CorpusError:
        return CorpusError(f"{self.path}:{self._line_at(self.position + offset)}: {message}")


def _decode_at(text: str, position: int) -> tuple[Any, int]:
    """Decode a value. Return it, or a problem, and its end."""
    try:
        return _DECODER.raw_decode(text, position)
    except Problem as problem:
        return problem, _UNCHECKED_DECODER.raw_decode(text, position)[1]
