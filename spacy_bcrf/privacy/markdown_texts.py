"""The texts of Markdown: its marks, links and tags stay."""

import re
from collections.abc import Collection, Iterator
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
    \A---[ \t]*\r?\n(?P<header>.*?)^(?:---|\.\.\.)[ \t]*\r?$
    | (?P<fence>^[ \t>]*(?P<ticks>`{{3,}}(?!`)|~{{3,}}(?!~))[^\n]*\n)(?P<fenced>.*?)
        (?:^[ \t>]*(?P=ticks)[`~]*[ \t]*\r?$|\Z)
    | <!--(?P<comment>.*?)(?:-->|\Z)
    | <(?P<address>[a-zA-Z][-+.\w]*:[^\s<>]*|[^\s<>@=]+@[^\s<>]+)>
    | (?P<tag></?[a-zA-Z][^<>]*>)
    | (?<!`)(?P<tick>`+)(?!`)(?P<code>[^\n]*?[^`\n])(?P=tick)(?!`)
    | \]\(\s*{_target(1)}\s*\)
    | ^[ ]{{0,3}}\[(?!\^)(?P<label>[^\]\n]+)\]:\s*{_target(2)}[ \t]*\r?$
    | ^[ \t]*(?:\#{{1,6}}(?=\s)|[-*+][ \t]+(?:\[[ xX]\][ \t])?|\d{{1,9}}[.)](?=[ \t])|>[ \t]?)
    | (?:\\|(?<![ \t]{{2}})[ \t]+)?\r?\n
    | ^[ \t|]*[-=:_*]{{2}}[-=:_*| \t]*\r?$
    | (?<!\\)(?: !?\[ | \] | \*+ | ~~ | (?<!\w)_+ | (?:(?<!_)|(?<=\\_))_+(?!\w) | \| )
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
SCHEME = "x-redacted:"
"""What makes a placeholder an address in angle brackets: `<x-redacted:%5BEMAIL%5D>`."""
_YAML = re.compile(
    r"""^(?:[ \t]*-[ \t]+)*(?:[^\s"'#:][^"'#:\n]*:(?=\s))?[ \t]*"""
    r"""(?:"(?P<double>(?:\\.|[^"\\\n])+)"(?=[ \t\r]*$)|'(?P<single>[^'\n]+)'(?=[ \t\r]*$)"""
    r"""|(?P<plain>\S[^\r\n]*))""",
    re.MULTILINE,
)
"""A line of a header: its key stays, and in quotes YAML allows no backslash before a bracket."""
_UNIT = re.compile(r"\\[!-/:-@\[-`{-~]|.", re.DOTALL)
_SPECIAL = re.compile(r"[\[\]#*`<>|~]")


def find_markdown(source: str) -> Iterator[Node]:
    """Yield the texts between marks, which a model reads together, and then addresses and titles.

    A text with a mark in the middle, such as bold letters, is one text of two nodes. The label of a
    link is one text with its definition.
    """
    others: list[Node] = []
    marks = list(_MARKS.finditer(source))
    labels = {_fold(mark["label"]) for mark in marks if mark["label"]}
    at, before, last = 0, "", ""
    for mark in marks:
        if at < mark.start():
            names = labels if last == "[" else ()
            yield _read_text(source, at, mark.start(), before, names)
            before = ""
        at, last = mark.end(), mark[0][-1:]
        before += mark[0].lstrip("\\") if last == "\n" else " " * (mark[0] in _APART)
        for kind, start, end in _find_groups(mark):
            text = source[start:end]
            node = Node(start, end, text, escape_new=_ESCAPES[kind], before=before or " ")
            if kind == "label":
                node.name = _fold(text)
            if kind == "address":
                node.scheme = SCHEME
            if kind == "header":
                yield from _read_header(node)
                before = ""
            elif kind in ("code", "fenced", "label"):
                yield node
                before = ""
            else:
                # A replacement must not take one of two parentheses.
                parts = re.finditer(r"[^()]+" if kind == "target" else ".+", text, re.DOTALL)
                others += (
                    replace(
                        node,
                        start=start + part.start(),
                        end=start + part.end(),
                        text=part[0],
                        before="" if part.start() else None,
                    )
                    for part in parts
                )
        if mark["tag"]:
            others += read_attributes(source, *mark.span())
    if at < len(source):
        yield _read_text(source, at, len(source), before)
    yield from others


def _read_text(
    source: str, start: int, end: int, before: str, labels: Collection[str] = ()
) -> Node:
    """Return the text between marks. labels: the label that it may be."""
    node = decode(source, start, end, _UNIT, lambda unit: unit[-1])
    name = _fold(source[start:end])
    return replace(node, escape_new=_escape, before=before, name=name if name in labels else "")


def _read_header(header: Node) -> Iterator[Node]:
    """Yield the values of a header."""
    for line in _YAML.finditer(header.text):
        value = str(line.lastgroup)
        start, end = (header.start + at for at in line.span(value))
        escape = _escape if value == "plain" else str
        yield Node(start, end, line[value], escape_new=escape, before="\n")


def _fold(label: str) -> str:
    return " ".join(label.casefold().split())


def _find_groups(mark: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of the texts in a mark."""
    for name, value in mark.groupdict().items():
        if value and (kind := name.rstrip("12")) in _ESCAPES:
            yield kind, *mark.span(name)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


_APART = ("[", "![", "]", "|")
"""Marks between words."""
_ESCAPES: dict[str, Write] = {
    "header": _escape,
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
