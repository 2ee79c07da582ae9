"""The objects of a JSON file, one a line or in one list, each with its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .text import Line, read_lines

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"


class Problem(ValueError):
    """Why a record cannot be converted. reason: its kind, in a word or two, to count it by."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


class Ignored(Exception):
    """A record that says nothing, by the decision of its annotator, and which one."""


class Item(NamedTuple):
    """place: file and line. value: an object, or the problem with what is there instead."""

    place: str
    value: dict[str, Any] | Problem


def read_objects(
    path: Path, advance: Callable[[int], object] = lambda n_bytes: None
) -> Iterator[Item]:
    """What each line holds that is not blank; or, where the first starts with a bracket, what the
    list in the file holds, whose text is in memory as a whole, but one of its items at a time.

    A bad line is an item with a problem. After what is no JSON in a list nothing can be read:
    CorpusError. `advance` is told from time to time how many more bytes have been dealt with.
    """
    is_list = False
    lines = read_lines(path, lambda n_bytes: None if is_list else advance(n_bytes))
    filled = (line for line in lines if line.text.strip(_BLANKS))
    first = next(filled, None)
    if first is None:
        return
    if first.text.lstrip(_BLANKS).startswith("["):
        is_list = True
        yield from _read_list(first, lines, advance)
        return
    for line in chain([first], filled):
        yield Item(f"{path}:{line.number}", _parse(line.text))


def _parse(text: str) -> dict[str, Any] | Problem:
    try:
        return _check(json.loads(text))
    except json.JSONDecodeError as error:
        return Problem("no JSON", f"no JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:  # a number or a nesting that is too long
        return Problem("no JSON", f"no JSON that can be read: {error}")


def _check(value: Any) -> dict[str, Any] | Problem:
    if isinstance(value, dict):
        return value
    return Problem("no object", f"expected an object, got {json.dumps(value)[:60]}")


def _read_list(
    first: Line, others: Iterator[Line], advance: Callable[[int], object]
) -> Iterator[Item]:
    text = "\n".join(line.text for line in chain([first], others))
    n_bytes = first.path.stat().st_size
    number, counted = first.number, 0

    def at(position: int) -> Line:
        nonlocal number, counted
        number += text.count("\n", counted, position)
        counted = position
        return Line(first.path, number, "")

    def skip(position: int) -> int:
        while text[position : position + 1] and text[position] in _BLANKS:
            position += 1
        return position

    position = skip(text.index("[") + 1)
    done = 0
    while not text.startswith("]", position):
        start = position
        try:
            value, position = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            raise at(error.pos).error(f"no JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise at(start).error(f"no JSON that can be read: {error}") from None
        yield Item(f"{first.path}:{at(start).number}", _check(value))
        position = skip(position)
        if text.startswith(",", position):
            position = skip(position + 1)
        elif not text.startswith("]", position):
            raise at(position).error("no JSON: expected a comma or the end of the list")
        advance(n_bytes * position // len(text) - done)
        done = n_bytes * position // len(text)
    if (end := skip(position + 1)) < len(text):
        raise at(end).error("no JSON: more after the end of the list")
    advance(n_bytes - done)
