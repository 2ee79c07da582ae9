"""The language of feature templates.

A template combines attributes of the current token (offset 0) and its neighbours:

    lower[0]                 the lowercased word
    lower[-2..2]             five templates, one for each offset
    lower[-1..0]|lower[0..1] two templates, bigrams: ranges advance together
    tag[-1]|lower[0]         one template, which combines both values in one feature
    prefix(1..4)[0]          one template, with a feature for each of four values
    prefix(2,4)[0]           the same for two values

The attributes are:

- token attributes of spaCy: `orth` or `w`, `norm`, `tag` or `p`, `pos`, `is_digit`, ...
- custom extensions, `_.name`; a list gives several values
- gazetteers, `gazetteer.name`, `exact.name` and `partial.name`, see `gazetteers`
- attributes of the word form, such as `lower`, `suffix(3)` and `digits`, see
  `word_attributes.LENGTHS` and `word_attributes.PLAIN`
- word tables, such as `cluster.name(4,6,10,20)`, `compound.name` and `frequency`, see `word_tables`
- attributes of the document, such as `position` and `elsewhere.tag`, see `doc_attributes`
- the first chain's posteriors elsewhere in the document, `pooled`, see `two_pass`
- quantized word vectors, `vector` or `vector(1..50)`, see `quantized_vectors`

If a value is missing (0, "", None, False), the template has no feature at this token. Positions
outside of the sequence have a value of their own for each distance.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_PART = re.compile(
    r"(?P<name>(?:(?:_|[A-Za-z]\w*)\.)?[A-Za-z]\w*)"
    r"(?:\((?:(?P<first>\d+)\.\.(?P<last>\d+)|(?P<list>\d+(?:,\d+)*))\))?"
    r"\[(?P<from>[+-]?\d+)(?:\.\.(?P<to>[+-]?\d+))?\]"
)

ALIASES = {"w": "orth", "p": "tag"}


class TemplateError(ValueError):
    """Malformed template, with the template and the position in the message.

    >>> from bcrf.linear import TemplateError, parse_templates
    >>> try:
    ...     parse_templates(["lower"])
    ... except TemplateError as error:
    ...     print(str(error)[:34])
    template 'lower', position 1: expe
    """


@dataclass(frozen=True)
class Attribute:
    """Attribute of a token. lengths: its argument, in ascending order; None without one.

    >>> from bcrf.linear import Attribute
    >>> str(Attribute("suffix", range(1, 4)))
    'suffix(1..3)'
    """

    name: str
    lengths: range | tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.lengths is None:
            return self.name
        if isinstance(self.lengths, range):
            return f"{self.name}({self.lengths[0]}..{self.lengths[-1]})"
        return f"{self.name}({','.join(map(str, self.lengths))})"


@dataclass(frozen=True)
class Part:
    """Attribute of the token at an offset from the current one."""

    attribute: Attribute
    offset: int

    def __str__(self) -> str:
        return f"{self.attribute}[{self.offset}]"


@dataclass(frozen=True)
class Template:
    """Combination of one or more parts. Its features depend only on its text, `str(template)`."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "|".join(map(str, self.parts))


def parse_template(text: str) -> list[Template]:
    """Parse one line, several templates if it has ranges. TemplateError names the position."""
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
    """Parse all lines.

    Raises TemplateError if there is no line, if a line is malformed, or if a template occurs twice.

    >>> from bcrf.linear import parse_templates
    >>> [str(template) for template in parse_templates(["lower[-1..0]", "tag[0]|lower[0]"])]
    ['lower[-1]', 'lower[0]', 'tag[0]|lower[0]']
    """
    if not texts:
        raise TemplateError('there are no templates; expected a set such as "ner", or lines')
    templates: dict[Template, str] = {}
    for text in texts:
        for template in parse_template(text):
            if template in templates:
                raise TemplateError(f"template {text!r}: duplicate of {template}")
            templates[template] = text
    return list(templates)


def _read_part(text: str, match: re.Match[str]) -> tuple[Attribute, range, int]:
    at = match.start()
    lengths = _read_lengths(text, match)
    low = int(match["from"])
    high = int(match["to"]) if match["to"] else low
    if high < low:
        raise _error(text, match.start("from"), f"the range {low}..{high} is empty")
    name = match["name"]
    attribute = Attribute(ALIASES.get(name, name), lengths)
    return attribute, range(low, high + 1), at


def _read_lengths(text: str, match: re.Match[str]) -> range | tuple[int, ...] | None:
    """Read the argument of an attribute. Equal ones are equal: a tuple, or a range of several."""
    if match["list"]:
        listed = tuple(map(int, match["list"].split(",")))
        if listed[0] < 1 or any(a >= b for a, b in pairwise(listed)):
            raise _error(text, match.start("list"), "expected ascending lengths, such as 4,6,10")
        is_range = 1 < len(listed) == listed[-1] - listed[0] + 1
        return range(listed[0], listed[-1] + 1) if is_range else listed
    if not match["first"]:
        return None
    first, last = int(match["first"]), int(match["last"])
    if not 1 <= first <= last:
        raise _error(text, match.start("first"), "expected a length, or a range like 1..4")
    return (first,) if first == last else range(first, last + 1)


def _error(text: str, at: int, what: str) -> TemplateError:
    return TemplateError(
        f"template {text!r}, position {at + 1}: {what}, got {text[at:] or 'the end'!r}"
    )
