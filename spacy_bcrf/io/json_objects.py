"""JSON objects of a file, one per line or all in one list, each with its file and line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .text import Line, read_lines

_DECODER = json.JSONDecoder()
_WHITE_SPACE = " \t\r\n"


class Problem(ValueError):
    """Error of a record that cannot be converted. reason: the kind of problem, for counts."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Item(NamedTuple):
    """An object of a file. place: file and line. value: the object, or the bad line's problem."""

    place: str
    value: dict[str, Any] | Problem


def read_objects(
    path: Path, advance: Callable[[int], object] = lambda n_bytes: None
) -> Iterator[Item]:
    """Yield the objects of a file: one on each non-blank line, or the items of one list.

    If the first line starts with a bracket, the file is a list. Then the whole text is in memory,
    but only one of its items at a time. A bad line yields an item with a problem. Broken JSON in
    a list ends the reading with a CorpusError. `advance` receives the number of bytes read since
    its last call.
    """
    is_list = False
    lines = read_lines(path, lambda n_bytes: None if is_list else advance(n_bytes))
    filled = (line for line in lines if line.text.strip(_WHITE_SPACE))
    first = next(filled, None)
    if first is None:
        return
    if first.text.lstrip(_WHITE_SPACE).startswith("["):
        is_list = True
        yield from _read_list(first, lines, advance)
        return
    for line in chain([first], filled):
        value: dict[str, Any] | Problem
        try:
            value = parse_object(line.text)
        except Problem as problem:
            value = problem
        yield Item(f"{path}:{line.number}", value)


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Problem if the text is broken JSON or another value."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise Problem("no JSON", f"no JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise Problem("no JSON", _describe(error)) from None
    if not isinstance(value, dict):
        raise _not_an_object(value)
    return value


def _describe(error: ValueError | RecursionError) -> str:
    """Describe an error of the JSON parser that is no syntax error."""
    if isinstance(error, RecursionError):
        return "no JSON that can be read: nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "no JSON that can be read: not UTF-8"
    return f"no JSON that can be read: {error}"  # for instance an integer of 5,000 digits


def _not_an_object(value: Any) -> Problem:
    return Problem("no object", f"expected an object, got {json.dumps(value)[:60]}")


def _read_list(
    first: Line, others: Iterator[Line], advance: Callable[[int], object]
) -> Iterator[Item]:
    text = "\n".join(line.text for line in chain([first], others))
    n_bytes = first.path.stat().st_size
    number, counted = first.number, 0

    def line_at(position: int) -> Line:
        nonlocal number, counted
        number += text.count("\n", counted, position)
        counted = position
        return Line(first.path, number, "")

    def skip_white_space(position: int) -> int:
        while text[position : position + 1] and text[position] in _WHITE_SPACE:
            position += 1
        return position

    position = skip_white_space(text.index("[") + 1)
    done = 0
    while not text.startswith("]", position):
        start = position
        try:
            value, position = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            raise line_at(error.pos).error(f"no JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise line_at(start).error(_describe(error)) from None
        place = f"{first.path}:{line_at(start).number}"
        yield Item(place, value if isinstance(value, dict) else _not_an_object(value))
        position = skip_white_space(position)
        if text.startswith(",", position):
            position = skip_white_space(position + 1)
        elif not text.startswith("]", position):
            raise line_at(position).error("no JSON: expected a comma or the end of the list")
        advance(n_bytes * position // len(text) - done)
        done = n_bytes * position // len(text)
    if (end := skip_white_space(position + 1)) < len(text):
        raise line_at(end).error("no JSON: more text after the end of the list")
    advance(n_bytes - done)
