"""The texts of HTML: between tags, in attributes, scripts and comments."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from html.entities import html5
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from .nodes import Node, decode

_INLINE = (
    r"abbr|acronym|a|bd[io]|big|b|cite|code|data|del|dfn|em|font|ins|i|kbd|label|mark|q|samp|"
    r"small|span|strike|strong|su[bp]|s|time|tt|u|var|wbr"
)
_IS_INLINE = re.compile(rf"</?(?:{_INLINE})|!").fullmatch
"""Tags within a sentence, and comments."""
_IS_STRUCTURE = re.compile(
    r"charset|class|dir|for|headers|hreflang|http-equiv|id|lang|media|method|name|rel|role|"
    r"scope|slot|style|target|type|xmlns\S*"
).fullmatch
"""Attributes that are no texts."""
_IS_ADDRESS = re.compile(
    r"action|background|cite|data|formaction|href|longdesc|poster|src|srcset"
).fullmatch
# A name without a value matches too, so that no part of it is sought again.
_ATTRIBUTE = re.compile(r"""([^\s/>=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
_NO_ADDRESS = re.compile(r"[\s\[\]]")
_UNIT = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{1,31});|.", re.DOTALL)


def find_html(source: str) -> Iterator[Node]:
    """Yield the texts between tags, which a model reads together, and then all other ones."""
    reader = _Reader(source)
    others: list[Node] = []
    before, raw = "", False
    for start, end, kind, content in reader.read():
        if kind == "text":
            text = source[start:end]
            if raw:
                others.append(replace(_cut(source, start, end), before=None))
            elif text.strip():
                yield replace(read_text(source, start, end), before=before)
                before = ""
            else:
                before = before or " "
            continue
        raw = kind in ("<script", "<style")
        if kind[0] == "<":
            others += read_attributes(source, start, end)
        elif content:
            at = source.find(content, start, end)
            others.append(Node(at, at + len(content), content, before=None))
        if not _IS_INLINE(kind):
            before = "\n"
    yield from others


def _cut(source: str, start: int, end: int) -> Node:
    return Node(start, end, source[start:end])


def read_text(source: str, start: int, end: int) -> Node:
    """Return a text between tags."""
    if source.find("&", start, end) < 0:
        return Node(start, end, source[start:end], escape=_escape)
    return replace(decode(source, start, end, _UNIT, _read_entity), escape=_escape)


def read_attributes(source: str, start: int, end: int) -> Iterator[Node]:
    """Yield the values of attributes with texts and addresses, of a tag."""
    for match in _ATTRIBUTE.finditer(source, start, end):
        name, value = match[1].lower(), match[2]
        if value is None or _IS_STRUCTURE(name):
            continue
        first, last = match.span(2)
        is_quoted = value[0] in "\"'"
        node = read_text(source, first + is_quoted, last - is_quoted)
        yield replace(
            node,
            escape=html.escape,
            escape_new=_escape_link if _IS_ADDRESS(name) else None,
            quote="" if is_quoted else '"',
            before=None,
        )


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def escape_address(text: str) -> str:
    """Return a replacement as an address has it: `%5BPERSON%5D`. All else stays."""
    return _NO_ADDRESS.sub(lambda match: quote(match[0]), text)


def _escape_link(text: str) -> str:
    return html.escape(escape_address(text))


def _read_entity(unit: str) -> str:
    if unit[0] != "&" or len(unit) == 1:
        return unit
    return html.unescape(unit) if unit[1] == "#" else html5.get(unit[1:], unit)


class _Reader(HTMLParser):
    """Places of markup and of texts in a source."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self._source = source
        self._lines = [0, *(match.end() for match in re.finditer("\n", source))]
        self._found: list[tuple[int, str, str]] = []

    def read(self) -> Iterator[tuple[int, int, str, str]]:
        """Yield start, end, kind, and the content of a comment. Kinds: text, <p, </p, !."""
        self.feed(self._source)
        self.close()
        found = [*self._found, (len(self._source), "", "")]
        at, is_text = 0, False
        for (start, kind, content), (end, following, _) in pairwise(found):
            if kind == "text" and not is_text:
                at = start
            is_text = kind == "text"
            if not is_text:
                yield start, end, kind, content
            elif following != "text":
                yield at, end, kind, ""

    def _add(self, kind: str, content: str = "") -> None:
        line, column = self.getpos()
        self._found.append((self._lines[line - 1] + column, kind, content))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._add(f"<{tag}")

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._add(f"<{tag}")

    def handle_endtag(self, tag: str) -> None:
        self._add(f"</{tag}")

    def handle_data(self, data: str) -> None:
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("!", data)

    def handle_decl(self, decl: str) -> None:
        self._add("!")

    def handle_pi(self, data: str) -> None:
        self._add("!")

    def unknown_decl(self, data: str) -> None:
        self._add("!", data.removeprefix("CDATA[") if data.startswith("CDATA[") else "")
