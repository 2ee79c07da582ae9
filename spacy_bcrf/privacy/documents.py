"""Documents of formats: JSON, CSV, HTML, Markdown and logs. Their structure stays as it is."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice

from bcrf.io.text import BOM
from spacy_bcrf.corpora.formats.tables import find_delimiter

from .html_texts import find_html
from .markdown_texts import find_markdown
from .nodes import Cell, Document, Node, decode, double_quotes

Fields = Collection[str] | None
"""Names of fields, with dots between a field and one in it. None for all."""

_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|-?\d[-+.\w]*', re.DOTALL)
_JSON_UNIT = re.compile(r"\\ud[89ab]\w\w\\ud[c-f]\w\w|\\u(?!d[89a-f])\w{4}|\\[^u]|.", re.I | re.S)
_DIGIT = re.compile(r"\d")
_LINE = re.compile(r"[^\r\n]+")
_JSON_START = re.compile(r"[{\[]")
SHORT = 80
"""Most characters of a text that the name of its field explains, such as 34, and of that name."""
MAX_STARTS = 100
"""Most brackets of a log line at which JSON may begin."""
_CELLS = {
    sign: re.compile(rf'("(?:[^"]|"")*"|(?!")[^{sign}\r\n]*)([{sign}]|\r?\n|\r|\Z)')
    for sign in ",;|\t"
}
_CELL_UNIT = re.compile(r'""|.', re.DOTALL)


def read_document(source: str, kind: str = "", fields: Fields = None, head: str = "") -> Document:
    """Return the texts of a source. Its structure and its names of fields are no texts.

    kind: the suffix of its files, see KINDS; "plain" for one text, any other one for a text that
    may be JSON. fields: of JSON and CSV. head: its beginning, a header. ValueError if the source
    has another format.
    """
    mark = BOM if source.startswith(BOM) and kind != "plain" else ""
    source, head = source[len(mark) :], head[len(mark) :]
    if find := KINDS.get(kind):
        return Document(source, list(find(source, fields)), mark, len(head))
    nodes = [Node(0, len(source), source)]
    is_open = source and kind != "plain"
    return Document(source, list(_open(nodes)) if is_open else nodes, mark)


def _open(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes. Those with JSON become the nodes of its strings, which a model reads apart."""
    is_json = False
    for node in nodes:
        node = replace(node, before=None) if is_json else node
        is_json = False
        if node.text.lstrip()[:1] in ("{", "["):
            with suppress(ValueError):
                inner = list(_find_json(node.text, None))
                yield from (each.within(node) for each in inner)
                is_json = True
                continue
        yield node


def _find_json(source: str, fields: Fields) -> Iterator[Node]:
    """Yield the strings and the numbers, which become strings if they change."""
    try:
        json.loads(source)
    except RecursionError:
        raise ValueError("no JSON: it is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None
    names: list[str | None] = []  # of the open fields, None for a list
    is_name = False
    escape = _escape_ascii if source.isascii() else _escape_json
    for match in _JSON.finditer(source):
        sign = match[0][0]
        if sign in "{[":
            is_name = sign == "{"
            names.append("" if is_name else None)
        elif sign in "}]":
            names.pop()
        elif sign in ",:":
            is_name = sign == "," and bool(names) and names[-1] is not None
        elif is_name:
            names[-1] = json.loads(match[0])
        elif match[0] != '""' and is_chosen(".".join(filter(None, names)), fields):
            node = _read_value(source, match.start(), match.end(), escape)
            yield from _open([_introduce(node, next((x for x in reversed(names) if x), ""))])


def is_chosen(name: str, fields: Fields) -> bool:
    return fields is None or any(name == x or name.startswith(f"{x}.") for x in fields)


def _introduce(node: Node, name: str) -> Node:
    """Return a node with the name of its field before it, if it is short and has a digit.

    Words say themselves what they are, and a model may not know the form `field: value`. A long
    name is no name: a list of numbers would repeat it for each one.
    """
    name = " ".join(name.split()) if len(name) <= SHORT else ""
    is_name = name and name.isprintable()  # so it has no half of a pair of surrogates
    is_unclear = is_name and len(node.text) <= SHORT and _DIGIT.search(node.text)
    return replace(node, intro=f"{name}: ") if is_unclear else node


def _read_value(source: str, start: int, end: int, escape: Callable[[str], str]) -> Node:
    if source[start] != '"':
        around = start, end
        return Node(start, end, source[start:end], escape=escape, quote='"', around=around)
    around, start, end = (start, end), start + 1, end - 1
    if source.find("\\", start, end) < 0:
        return Node(start, end, source[start:end], escape=escape, around=around)
    node = decode(source, start, end, _JSON_UNIT, _read_escape)
    return replace(node, escape=escape, around=around)


def _read_escape(unit: str) -> str:
    return unit if unit[0] != "\\" or len(unit) == 1 else str(json.loads(f'"{unit}"'))


def _escape_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escape_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _find_json_lines(source: str, fields: Fields) -> Iterator[Node]:
    at = 0
    for number, line in enumerate(source.split("\n"), 1):
        outer = Node(at, at + len(line), line)
        at = outer.end + 1
        try:
            found = list(_find_json(line, fields)) if line.strip() else []
        except ValueError as error:
            raise ValueError(f"line {number} is {error}") from None
        yield from (node.within(outer) for node in found)


def _find_cells(source: str, fields: Fields, kind: str) -> Iterator[Node]:
    """Yield the cells of a table below its header. fields: names in the header."""
    first = _LINE.search(source)
    sign = find_delimiter(kind, first[0] if first else "")
    header: list[str] | None = None
    row: list[Node] = []
    at = n_rows = 0
    while at < len(source):
        cell = _CELLS[sign].match(source, at)
        if cell is None:
            raise ValueError(f"no CSV: row {n_rows + 1} has an open quote, or a text behind one")
        row.append(_read_cell(source, *cell.span(1), sign))
        at = cell.end()
        if cell[2] == sign:
            continue
        n_rows += 1
        if len(row) == 1 and row[0].cell and not row[0].text:
            pass  # a blank row
        elif header is None:
            header = [one.text for one in row]
        elif fields is not None and len(row) != len(header):
            raise ValueError(f"no CSV: {len(row)} fields under a header of {len(header)}")
        else:
            names = header + [""] * (len(row) - len(header))
            named = zip(row, names, strict=False)
            cells = ((one, name) for one, name in named if one.text and is_chosen(name, fields))
            yield from _open([_introduce(one, name) for one, name in cells])
        row = []


def _read_cell(source: str, start: int, end: int, sign: str) -> Node:
    if source[start : start + 1] != '"':
        return Node(start, end, source[start:end], cell=Cell(start, end, f'{sign}"\r\n'))
    start, end = start + 1, end - 1
    if source.find('"', start, end) < 0:
        return Node(start, end, source[start:end], escape=double_quotes)
    cell = decode(source, start, end, _CELL_UNIT, lambda unit: unit[0])
    return replace(cell, escape=double_quotes)


def _find_lines(source: str, fields: Fields) -> Iterator[Node]:
    """Yield the lines of a log, and the strings of JSON at their ends."""
    for line in _LINE.finditer(source):
        start, end = line.span()
        last = start + len(line[0].rstrip())
        starts = _JSON_START.finditer(source, start, last) if source[last - 1] in "]}" else ()
        for at in (match.start() for match in islice(starts, MAX_STARTS)):
            tail = Node(at, last, source[at:last])
            inner = list(_open([tail]))
            if not inner or inner[0].start > at:
                if start < at:
                    yield Node(start, at, source[start:at])
                yield from inner
                break
        else:
            yield Node(start, end, line[0])


def _find_html(source: str, fields: Fields) -> Iterator[Node]:
    return _open(find_html(source))  # scripts may be JSON


def _find_markdown(source: str, fields: Fields) -> Iterator[Node]:
    return _open(find_markdown(source))


KINDS: dict[str, Callable[[str, Fields], Iterator[Node]]] = {
    ".json": _find_json,
    ".jsonl": _find_json_lines,
    ".ndjson": _find_json_lines,
    ".csv": partial(_find_cells, kind=".csv"),
    ".tsv": partial(_find_cells, kind=".tsv"),
    ".html": _find_html,
    ".htm": _find_html,
    ".md": _find_markdown,
    ".markdown": _find_markdown,
    ".log": _find_lines,
}
"""What yields the texts of a source, by the suffix of its files."""


def change_texts(source: str, change: Callable[[str], str], kind: str = "") -> str:
    """Return a source whose texts a function has changed. ValueError: see `read_document`."""
    document = read_document(source, kind)
    old = [(a, b, document.text[a:b]) for place in document.texts for a, b in document.cut(*place)]
    new = [(a, b, change(text)) for a, b, text in old]
    return document.write(x for x, y in zip(new, old, strict=True) if x != y).source
