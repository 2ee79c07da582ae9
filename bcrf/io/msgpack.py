"""MessagePack of maps, lists, strings, bytes, numbers, booleans and None.

msgpack-python with `use_bin_type` writes the same bytes. Source: the MessagePack specification,
https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from contextlib import suppress
from struct import Struct
from struct import error as StructError
from typing import Any

DEPTH = 100
"""Largest number of maps and lists inside one another."""

_CONSTANTS: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}
_LETTERS: dict[tuple[type, int], str] = {
    **{(bytes, 0xC4): "BHI", (str, 0xD9): "BHI", (list, 0xDC): "HI", (dict, 0xDE): "HI"},
    **{(float, 0xCB): "d", (float, 0xCA): "f", (int, 0xCC): "BHIQbhiq"},
}
# The code and the number after it: the value itself, or its size. From few bytes to many.
_FORMATS = [
    (kind, code, Struct(f">B{letter}"))
    for (kind, first), letters in _LETTERS.items()
    for code, letter in enumerate(letters, first)
]
_BY_CODE = {code: (kind, form) for kind, code, form in _FORMATS}


def dumps(value: Any) -> bytes:
    """Serialize a value. Tuples become lists.

    Raises ValueError for another type, an integer beyond 64 bits, and more than DEPTH levels.
    """
    parts: list[bytes] = []
    _write(value, parts, DEPTH)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes], depth: int) -> None:
    if isinstance(value, str):
        text = value.encode()
        parts += bytes([0xA0 | len(text)]) if len(text) < 32 else _head(str, len(text)), text
    elif value is None or isinstance(value, bool):
        parts.append(b"\xc0" if value is None else b"\xc3" if value else b"\xc2")
    elif isinstance(value, int):
        parts.append(bytes([value % 256]) if -32 <= value < 128 else _head(int, value))
    elif isinstance(value, float):
        parts.append(_head(float, value))
    elif isinstance(value, bytes):
        parts += _head(bytes, len(value)), value
    elif isinstance(value, (dict, list, tuple)):
        if not depth:
            raise ValueError(f"more than {DEPTH} maps and lists inside one another")
        kind, small = (dict, 0x80) if isinstance(value, dict) else (list, 0x90)
        parts.append(bytes([small | len(value)]) if len(value) < 16 else _head(kind, len(value)))
        for item in value:
            _write(item, parts, depth - 1)
            if kind is dict:
                _write(value[item], parts, depth - 1)
    else:
        raise ValueError(f"MessagePack has no type for {type(value).__name__}")


def _head(kind: type, number: float) -> bytes:
    """Return the number, or the size of a value, in the least bytes that hold it."""
    for of_kind, code, form in _FORMATS:
        if of_kind is kind:
            with suppress(StructError):
                return form.pack(code, number)
    raise ValueError(f"MessagePack has no type for the {kind.__name__} of {number}")


def loads(data: bytes) -> Any:
    """Return the value that `dumps` serialized. Raises ValueError naming the damage."""
    at = 0

    def read(depth: int) -> Any:
        nonlocal at
        kind: type
        start, code = at, data[at]
        at += 1
        if 0xA0 <= code < 0xC0:
            kind, size = str, code & 31
        elif code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 256
        elif code < 0xA0:
            kind, size = (dict if code < 0x90 else list), code & 15
        elif code in _CONSTANTS:
            return _CONSTANTS[code]
        elif code in _BY_CODE:
            kind, form = _BY_CODE[code]
            _, size = form.unpack_from(data, start)
            at = start + form.size
            if kind is int or kind is float:
                return size
        else:
            raise ValueError(f"byte {start}: no known type has the code {code:#x}")
        if kind is str or kind is bytes:
            piece, at = data[at : at + size], at + size
            return piece.decode() if kind is str else piece
        if not depth:
            raise ValueError(f"byte {start}: more than {DEPTH} maps and lists inside one another")
        if kind is list:
            return [read(depth - 1) for _ in range(size)]
        found = [read(depth - 1) for _ in range(2 * size)]
        try:
            return dict(zip(found[::2], found[1::2], strict=True))
        except TypeError:
            raise ValueError(f"byte {start}: a map or list is the key of this map") from None

    try:
        value = read(DEPTH)
    except (IndexError, StructError) as error:
        raise ValueError(f"the value ends after byte {len(data)}, the last one") from error
    if at != len(data):
        raise ValueError(f"the value ends at byte {at}, but there are {len(data)}")
    return value
