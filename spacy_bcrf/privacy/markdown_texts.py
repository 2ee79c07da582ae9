"""The texts of Markdown: its marks, links and tags stay."""

import re
from collections.abc import Iterator
from dataclasses import replace

from .html_texts import escape_address, read_attributes
from .nodes import Node, Write, decode


def _target(n: int) -> str:
    """Return the pattern of an address with an optional title, in groups with a number."""
    return (
        rf"(?:<(?P<pointed{n}>[^<>\n]*)>|(?P<target{n}>(?:[^\s()<>]|\([^\s()]*\))+))"
        rf"""(?:\s+(?:"(?P<double{n}>[^"\n]*)"|'(?P<single{n}>[^'\n]*)'))?"""
    )


_MARKS = re.compile(
    rf"""
    (?P<fence>^[ \t>]*(?P<ticks>`{{3,}}(?!`)|~{{3,}}(?!~))[^\n]*\n)(?P<fenced>.*?)
        (?:^[ \t>]*(?P=ticks)[`~]*[ \t]*\r?$|\Z)
    | <!--(?P<comment>.*?)(?:-->|\Z)
    | <(?P<address>[a-zA-Z][-+.\w]*:[^\s<>]*|[^\s<>@=]+@[^\s<>]+)>
    | (?P<tag></?[a-zA-Z][^<>]*>)
    | (?<!`)(?P<tick>`+)(?!`)(?P<code>[^\n]*?[^`\n])(?P=tick)(?!`)
    | \]\(\s*{_target(1)}\s*\)
    | ^[ ]{{0,3}}\[(?!\^)(?P<label>[^\]\n]+)\]:\s*{_target(2)}[ \t]*\r?$
    | ^[ \t]*(?:\#{{1,6}}(?=\s)|[-*+][ \t]+(?:\[[ xX]\][ \t])?|\d{{1,9}}[.)](?=[ \t])|>[ \t]?)
    | ^[ \t|]*[-=:_*]{{2}}[-=:_*| \t]*\r?$
    | (?<!\\)(?: !?\[ | \] | \*+ | ~~ | (?<!\w)_+ | (?:(?<!_)|(?<=\\_))_+(?!\w) | \| )
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_UNIT = re.compile(r"\\[!-/:-@\[-`{-~]|.", re.DOTALL)
_SPECIAL = re.compile(r"[\[\]#*`<>|~]")


def find_markdown(source: str) -> Iterator[Node]:
    """Yield the texts between marks, which a model reads together, and then addresses and titles.

    A text with a mark in the middle, such as bold letters, is one text of two nodes.
    """
    others: list[Node] = []
    at, before = 0, ""
    for mark in _MARKS.finditer(source):
        if at < mark.start():
            text = decode(source, at, mark.start(), _UNIT, lambda unit: unit[-1])
            yield replace(text, escape_new=_escape, before=before)
        at, before = mark.end(), " " * (mark[0] in _APART)
        for name, start, end in _find_groups(mark):
            kind = name.rstrip("12")
            node = Node(start, end, source[start:end], escape_new=_ESCAPES[kind], before=" ")
            if kind in ("code", "fenced", "label"):
                yield node
            else:
                others.append(replace(node, before=None))
        if mark["tag"]:
            others += read_attributes(source, *mark.span())
    if at < len(source):
        text = decode(source, at, len(source), _UNIT, lambda unit: unit[-1])
        yield replace(text, escape_new=_escape, before=before)
    yield from others


def _find_groups(mark: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of the texts in a mark."""
    for name, value in mark.groupdict().items():
        if value and name.rstrip("12") in _ESCAPES:
            yield name, *mark.span(name)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


_APART = ("[", "![", "]", "|")
"""Marks between words."""
_ESCAPES: dict[str, Write] = {
    "fenced": str,
    "code": str,
    "label": _escape,
    "address": escape_address,
    "pointed": escape_address,
    "target": escape_address,
    "double": str,
    "single": str,
    "comment": str,
}
"""How to write a replacement in a mark."""
