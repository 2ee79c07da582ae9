"""The language of feature templates.

A template joins attributes of tokens near the one that is tagged:

    lower[0]                 one feature: the lowercased word
    lower[-2..2]             five templates, one for each offset
    lower[-1..0]|lower[0..1] two: offsets that are ranges go along together
    tag[-1]|lower[0]         all parts in one feature
    prefix(1..4)[0]          an attribute with several values gives a feature for each

Attributes are those of spaCy tokens (`orth` or `w`, `lower`, `norm`, `tag` or `p`, `pos`, `shape`,
`is_digit`, ..), custom extensions (`_.name`, with several values if it is a list), gazetteers
(`gazetteer.name`), and those of `words.LENGTHS` and `words.PLAIN`, as `suffix(3)` and `digits`.
A token whose value is missing (0, "", None, False) has no feature of that template. Beyond the
sequence there are values of their own, one for each distance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_PART = re.compile(
    r"(?P<name>(?:(?:_|gazetteer)\.)?[A-Za-z]\w*)"
    r"(?:\((?P<first>\d+)(?:\.\.(?P<last>\d+))?\))?"
    r"\[(?P<from>[+-]?\d+)(?:\.\.(?P<to>[+-]?\d+))?\]"
)

ALIASES = {"w": "orth", "p": "tag"}


class TemplateError(ValueError):
    """A template that cannot be read: names the template and the position."""


@dataclass(frozen=True)
class Attribute:
    """What a part looks at. first, last: of its argument, None without one; inclusive."""

    name: str
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None:
            return self.name
        if self.first == self.last:
            return f"{self.name}({self.first})"
        return f"{self.name}({self.first}..{self.last})"


@dataclass(frozen=True)
class Part:
    attribute: Attribute
    offset: int

    def __str__(self) -> str:
        return f"{self.attribute}[{self.offset}]"


@dataclass(frozen=True)
class Template:
    """One or more parts; `str` gives its canonical text, which alone decides on its keys."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "|".join(map(str, self.parts))


def parse_template(text: str) -> list[Template]:
    """The templates of one line, several if it has ranges of offsets.

    TemplateError naming the template and the position of what is malformed.
    """
    pieces, at = [], 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        match = _PART.match(text, at)
        if not match:
            raise _error(text, at, "expected an attribute and an offset, such as lower[-1]")
        pieces.append(_read_part(text, match))
        at = match.end()
        at += len(text[at:]) - len(text[at:].lstrip())
        if at == len(text):
            break
        if text[at] != "|":
            raise _error(text, at, "expected '|' and another part, or the end")
        at += 1
    sizes = {len(offsets) for _, offsets, _ in pieces if len(offsets) > 1}
    if len(sizes) > 1:
        raise _error(text, pieces[0][2], f"ranges of different lengths: {sorted(sizes)}")
    n = max(sizes, default=1)
    return [
        Template(
            tuple(
                Part(attribute, offsets[k if len(offsets) > 1 else 0])
                for attribute, offsets, _ in pieces
            )
        )
        for k in range(n)
    ]


def parse_templates(texts: Sequence[str]) -> list[Template]:
    """All templates of a list of lines; TemplateError for one that is there twice."""
    templates: dict[Template, str] = {}
    for text in texts:
        for template in parse_template(text):
            if template in templates:
                raise TemplateError(f"template {text!r}: {template} is there already")
            templates[template] = text
    return list(templates)


def _read_part(text: str, match: re.Match[str]) -> tuple[Attribute, range, int]:
    at = match.start()
    first = last = None
    if match["first"]:
        first = int(match["first"])
        last = int(match["last"] or first)
        if not 1 <= first <= last:
            raise _error(text, match.start("first"), "expected a length, or a range like 1..4")
    low = int(match["from"])
    high = int(match["to"]) if match["to"] else low
    if high < low:
        raise _error(text, match.start("from"), f"the range {low}..{high} is empty")
    name = match["name"]
    attribute = Attribute(ALIASES.get(name, name), first, last)
    return attribute, range(low, high + 1), at


def _error(text: str, at: int, what: str) -> TemplateError:
    return TemplateError(
        f"template {text!r}, position {at + 1}: {what}, got {text[at:] or 'the end'!r}"
    )
