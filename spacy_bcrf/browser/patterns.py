"""Python's regular expressions as JavaScript's, which have the flag u.

`\\p{alnum}` and `\\p{decimal}` stand for the ranges of `characters.find_properties`.
"""

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

# Python 3.10 has other names.
_NAMES = (
    ("sre_constants", "sre_parse")
    if sys.version_info < (3, 11)
    else ("re._constants", "re._parser")
)
op, parser = map(import_module, _NAMES)

SPACE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""The insides of a set of the characters that are white space for `str.isspace`."""
WORD = r"\p{alnum}_"
_CATEGORIES = {
    op.CATEGORY_DIGIT: (r"\p{decimal}", False),
    op.CATEGORY_NOT_DIGIT: (r"\p{decimal}", True),
    op.CATEGORY_SPACE: (SPACE, False),
    op.CATEGORY_NOT_SPACE: (SPACE, True),
    op.CATEGORY_WORD: (WORD, False),
    op.CATEGORY_NOT_WORD: (WORD, True),
}
_AT = {
    op.AT_BEGINNING: "(?<![^])",
    op.AT_END: r"(?=\n?(?![^]))",
    op.AT_BEGINNING_STRING: "(?<![^])",
    op.AT_END_STRING: "(?![^])",
}
_AT_LINES = {**_AT, op.AT_BEGINNING: r"(?<![^\n])", op.AT_END: r"(?![^\n])"}
_EDGE = f"(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))"
_LIKE_I = r"\u{130}\u{131}"
"""What Python compares as equal to i, whatever its case, and JavaScript does not."""
_COUNTS = {(0, 1): "?", (0, op.MAXREPEAT): "*", (1, op.MAXREPEAT): "+"}


def whole(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return a pattern that matches where `fullmatch` of another one does."""
    return re.compile(rf"\A(?:{pattern.pattern})\Z", pattern.flags)


def to_javascript(pattern: re.Pattern[str]) -> tuple[str, str]:
    """Return source and flags. ValueError names a part that JavaScript does not have."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    flags = tree.state.flags
    if flags & (re.ASCII | re.VERBOSE | re.LOCALE):
        raise ValueError(f"its flags {re.RegexFlag(flags)!r} have no counterpart in JavaScript")
    return _Translation(flags).join(tree), "ui" if flags & re.IGNORECASE else "u"


class _Translation:
    def __init__(self, flags: int) -> None:
        self._dot = "[^]" if flags & re.DOTALL else r"[^\n]"
        self._more = _LIKE_I if flags & re.IGNORECASE else ""
        self._at = _AT_LINES if flags & re.MULTILINE else _AT

    def join(self, items: Iterable[Any]) -> str:
        return "".join(self._translate(*item) for item in items)

    def _translate(self, kind: Any, value: Any) -> str:
        if kind is op.LITERAL:
            return f"[i{self._more}]" if self._more and chr(value) in "iI" else _escape(value)
        if kind is op.NOT_LITERAL:
            return f"[^{_escape(value)}]"
        if kind is op.ANY:
            return self._dot
        if kind is op.IN:
            return _translate_set(value, self._more)
        if kind is op.BRANCH:
            return f"(?:{'|'.join(map(self.join, value[1]))})"
        if kind is op.SUBPATTERN and not (value[1] or value[2]):
            return f"({'' if value[0] else '?:'}{self.join(value[3])})"
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            low, high, body = value
            count = f"{{{low},{'' if high is op.MAXREPEAT else high}}}"
            lazy = "?" * (kind is op.MIN_REPEAT)
            return f"(?:{self.join(body)}){_COUNTS.get((low, high), count)}{lazy}"
        if kind in (op.ASSERT, op.ASSERT_NOT):
            direction, body = value
            sign = "=" if kind is op.ASSERT else "!"
            return f"(?{'<' * (direction < 0)}{sign}{self.join(body)})"
        if kind is op.AT and value in self._at:
            return self._at[value]
        if kind is op.AT and value in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            return _EDGE if value is op.AT_BOUNDARY else f"(?!{_EDGE})"
        if kind is op.GROUPREF:
            return f"(?:\\{value})"
        raise ValueError(f"its part {kind} has no counterpart in JavaScript")


def _escape(code: int) -> str:
    character = chr(code)
    if character in r"\^$.*+?()[]{}|/-":
        return character if character == "-" else "\\" + character
    return character if 32 <= code < 127 else f"\\u{{{code:x}}}"


def _translate_set(members: list[tuple[Any, Any]], like_i: str) -> str:
    is_negated = members[0][0] is op.NEGATE
    ranges: list[list[int]] = []
    plain, negative = "", []
    for kind, value in members[is_negated:]:
        if kind is op.CATEGORY:
            inside, is_not = _CATEGORIES[value]
            negative += [f"[^{inside}]"] * is_not
            plain += "" if is_not else inside
            continue
        first, last = (value, value) if kind is op.LITERAL else value
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
    plain += "".join(
        _in_set(first) if first == last else f"{_in_set(first)}-{_in_set(last)}"
        for first, last in ranges
    )
    if any(first <= ord(i) <= last for first, last in ranges for i in "iI"):
        plain += like_i
    if not negative:
        return f"[{'^' * is_negated}{plain}]"
    parts = "|".join([f"[{plain}]"] * bool(plain) + negative)
    return f"(?:(?!{parts})[^])" if is_negated else f"(?:{parts})"


def _in_set(code: int) -> str:
    return r"\-" if chr(code) == "-" else _escape(code)
