"""Texts in a source of a format, and the source with other texts in their places."""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from bcrf.lazy import lazy

Bounds = tuple[int, int]
Write = Callable[[str], str]
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_SCHEME = re.compile(r"[a-zA-Z][-+.\w]*:")
_BOUND = -2
"""What an edit has in place of a number, if it begins or ends a cell."""


class Cell(NamedTuple):
    """The place of a cell without quotes. A text with one of the signs needs quotes."""

    start: int
    end: int
    signs: str


@dataclass(slots=True)
class Node:
    """A text in a source.

    start, end: its place. text: decoded. places: place of each character and of the end, None if
    the source has the text as it is. escape: encodes a text of the source. escape_new: encodes a
    replacement, by default as `escape`. quote: what stands around a text that changes. around: the
    place of a value of JSON with its quotes. scheme: what stands before a changed address that
    would be none. cell: of a table, which has the text without quotes. name: texts with the same
    one stay equal, such as labels of links. before: what separates it from the last node, None if a
    model reads it apart. intro: what a model that reads it apart reads first, such as the name of
    its field.
    """

    start: int
    end: int
    text: str
    places: Sequence[int] | None = None
    escape: Write = str
    escape_new: Write | None = None
    quote: str = ""
    around: Bounds | None = None
    scheme: str = ""
    cell: Cell | None = None
    name: str = ""
    before: str | None = None
    intro: str = ""

    @property
    def is_number(self) -> bool:
        """Whether it is a number of JSON."""
        return bool(self.quote and self.around)

    def place(self, i: int) -> int:
        """Return the place of a character in the source."""
        return self.start + i if self.places is None else self.places[i]

    def within(self, outer: "Node") -> "Node":
        """Return the node of the source that has the text of `outer`. This node is in that text."""
        places = None
        if self.places is not None or outer.places is not None:
            places = [outer.place(self.place(i)) for i in range(len(self.text) + 1)]
        return Node(
            outer.place(self.start),
            outer.place(self.end),
            self.text,
            places,
            lambda text: outer.escape(self.escape(text)),
            quote=outer.escape(self.quote),
            around=self.around and (outer.place(self.around[0]), outer.place(self.around[1])),
            cell=outer.cell,
            before=self.before,
            intro=self.intro,
        )


def decode(source: str, start: int, end: int, unit: re.Pattern[str], read: Write) -> Node:
    """Return a node whose units, such as escapes, are read as one character each, or stay."""
    text, places = list[str](), list[int]()
    for match in unit.finditer(source, start, end):
        found = read(match[0])
        n = len(match[0])
        # A unit that is no character stays.
        text.append(found if len(found) == 1 else match[0])
        places += [match.start()] if len(found) == 1 else range(match.start(), match.start() + n)
    return Node(start, end, "".join(text), [*places, end])


def double_quotes(text: str) -> str:
    """Return a text as a cell with quotes has it."""
    return text.replace('"', '""')


class Written(NamedTuple):
    """A new source, and the bounds of the replacements in it."""

    source: str
    places: list[Bounds]


class Document:
    """The texts of a source.

    text: all of them. texts: the bounds in it of each part that a model reads apart. intros: what
    it reads before each. mark: a byte order mark before the source, or nothing. head: the
    characters of a header at its beginning.
    """

    def __init__(self, source: str, nodes: Sequence[Node], mark: str = "", head: int = 0) -> None:
        """nodes: in the order of the text, which may be another one than in the source."""
        self.source, self._nodes, self.mark, self._head = source, nodes, mark, head
        self._starts: list[int] = []  # of the nodes in the text
        self.intros: list[str] = []
        parts, firsts, n = list[str](), list[int](), 0
        for i, node in enumerate(nodes):
            before = ("\n" if node.before is None else node.before) if i else ""
            n += len(before)
            if node.before is None or not i:
                firsts.append(n)
                self.intros.append(node.intro)
            self._starts.append(n)
            parts += [before, node.text]
            n += len(node.text)
        self.text = "".join(parts)
        self.texts = [(a, b - 1) for a, b in pairwise([*firsts, n + 1])]

    @property
    def is_plain(self) -> bool:
        """Whether the source is one text, without a format."""
        return self._nodes == [Node(0, len(self.source), self.source)] and not self.mark

    @property
    def markup(self) -> str:
        """What stays, decoded: names of fields, tags, marks, fields that are not chosen.

        Without the header.
        """
        bounds = [self._head, *(x for node in self._by_start for x in (node.start, node.end))]
        pairs = zip(bounds[::2], [*bounds[1::2], len(self.source)], strict=True)
        kept = "\n".join(self.source[start:end] for start, end in pairs)
        return html.unescape(_ESCAPED.sub(lambda match: chr(int(match[1], 16)), kept))

    def cut(self, start: int, end: int) -> Iterator[Bounds]:
        """Yield the parts of a place in the text, each within a node, without blanks around it."""
        for i in range(max(0, bisect_right(self._starts, start) - 1), len(self._nodes)):
            first = self._starts[i]
            if first >= end:
                return
            a, b = max(start, first), min(end, first + len(self._nodes[i].text))
            if part := self.text[a:b].strip():
                a = self.text.index(part, a)
                yield a, a + len(part)

    def find_whole(self, start: int) -> list[Bounds]:
        """Return the texts that change as a whole with the one at a place, none for other texts.

        It is a number, or the texts with the same name.
        """
        i = bisect_right(self._starts, start) - 1
        node, first = self._nodes[i], self._starts[i]
        if node.name:
            return self._names[node.name]
        return [(first, first + len(node.text))] * node.is_number

    def is_number(self, start: int) -> bool:
        """Return whether a number of JSON has the character at a place."""
        return self._nodes[bisect_right(self._starts, start) - 1].is_number

    @lazy
    def _names(self) -> dict[str, list[Bounds]]:
        found: dict[str, list[Bounds]] = {}
        for node, start in zip(self._nodes, self._starts, strict=True):
            found.setdefault(node.name, []).append((start, start + len(node.text)))
        return found

    def find(self, start: int, end: int) -> Iterator[Bounds]:
        """Yield the places in the text of what is between two places of the source."""
        for first, node in zip(self._starts, self._nodes, strict=True):
            if node.start < end and start < node.end:
                n = range(len(node.text))
                yield (
                    first + bisect_left(n, start, key=node.place),
                    first + bisect_left(n, end, key=node.place),
                )

    def find_escape(self, start: int, end: int) -> Write:
        """Return what encodes a text between two places of the source, by the last node there."""
        i = bisect_left(self._by_start, end, key=attrgetter("start")) - 1
        return self._by_start[i].escape if i >= 0 and start < self._by_start[i].end else str

    @lazy
    def _by_start(self) -> list[Node]:
        return sorted(self._nodes, key=attrgetter("start"))

    def write(
        self, replaced: Iterable[tuple[int, int, str]], *, numbers: Collection[Bounds] | None = None
    ) -> Written:
        """Return the source with other texts at places of `cut`, which do not overlap.

        numbers: None if the texts are replacements. Else they are originals, and the places of
        numbers of JSON.
        """
        edits: list[tuple[int, int, str, int]] = []
        quoted: dict[int, Node] = {}
        schemes: dict[int, str] = {}
        cells: set[Cell] = set()  # that get quotes
        n_places = 0
        for k, (start, end, new) in enumerate(replaced):
            i = bisect_right(self._starts, start) - 1
            node, first = self._nodes[i], self._starts[i]
            escape = node.escape if numbers is not None else node.escape_new or node.escape
            place = node.place(start - first), node.place(end - first)
            if numbers and (start, end) in numbers and end - start == len(node.text):
                place = node.around or place
            edits.append((*place, escape(new), k))
            n_places = k + 1
            if node.quote:
                quoted[i] = node
            # A mail address has no scheme. Other addresses need theirs.
            is_start = place[0] == node.start and not _SCHEME.match(edits[-1][2])
            if node.scheme and "%" in edits[-1][2] and (is_start or ":" not in node.text):
                schemes[node.start] = node.scheme
            if node.cell and not set(node.cell.signs).isdisjoint(edits[-1][2]):
                cells.add(node.cell)
        for node in quoted.values():
            edits += [(at, at, node.quote, -1) for at in (node.start, node.end)]
        edits += [(at, at, scheme, -1) for at, scheme in schemes.items()]
        edits += [(at, at, '"', _BOUND) for cell in cells for at in cell[:2]]
        parts, at, length = [self.mark], 0, len(self.mark)
        places = [(0, 0)] * n_places
        write: Write = str
        for start, end, new, k in sorted(edits):
            kept = write(self.source[at:start])
            if k == _BOUND:
                write = double_quotes if write is str else str
            else:
                new = write(new)
            length += len(kept)
            parts += [kept, new]
            if k >= 0:
                places[k] = length, length + len(new)
            length += len(new)
            at = end
        return Written("".join([*parts, self.source[at:]]), places)
