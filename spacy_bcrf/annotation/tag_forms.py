"""Forms of entity tags in files: B-PER, B_PER, PER-B, PER alone, B alone."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import product
from typing import Any, NamedTuple

MISSING = ("", "-", "_", None, -100)
"""Values of missing tags."""
_OUTSIDE = ("O", "o")

_PREFIXES = {prefix: prefix for prefix in "BILUES"} | {"M": "I", "W": "S"}
"""Our prefix by a file's. M (middle) and W (whole) come from BMES and BMEWO."""
_JOINS = "-", "_", ":", "/", ".", "|", "\N{EN DASH}"
_LETTERS = "[BILUESMW]"
_STANDARD = re.compile(f"{_LETTERS}-.", re.IGNORECASE)
_OPENING = re.compile("[BIUSMW]-.", re.IGNORECASE)
_BARE = re.compile("[BILUESMWO]", re.IGNORECASE)


class TagForm(NamedTuple):
    """How a tag is made of prefix and label.

    join: the character between. is_last: the prefix comes last. kind: "joined", "plain" for a label
    alone, or "bare" for a prefix alone, whose label is ENTITY.
    """

    join: str = "-"
    is_last: bool = False
    kind: str = "joined"

    def __str__(self) -> str:
        if self.kind != "joined":
            return "labels without a prefix" if self.kind == "plain" else "prefixes without a label"
        parts = ("label", "prefix") if self.is_last else ("prefix", "label")
        return " and ".join(parts) + (f" with {self.join!r} between" if self.join else "")

    def split(self, tag: str) -> tuple[str, str]:
        """Return the prefix in our letters and the label, or "" and the tag of another form."""
        if self.kind != "joined":
            return ("", tag) if self.kind == "plain" else (_PREFIXES.get(tag.upper(), ""), "ENTITY")
        cut = len(tag) - 1 if self.is_last else 1
        prefix, rest = (tag[cut:], tag[:cut]) if self.is_last else (tag[:cut], tag[cut:])
        label = rest.removesuffix(self.join) if self.is_last else rest.removeprefix(self.join)
        is_tag = len(rest) == len(label) + len(self.join) and label and prefix.upper() in _PREFIXES
        return (_PREFIXES[prefix.upper()], label) if is_tag else ("", tag)

    def normalize(self, tag: str | None) -> str | None:
        """Return `B-PER` or O for a tag, None if it is missing. Tags of other forms stay."""
        tag = tag and tag.strip()
        if tag is None or tag in MISSING:
            return None
        if tag in _OUTSIDE:
            return "O"
        if self.kind == "plain":
            return tag if _OPENING.match(tag) or tag[-1] == "-" else f"I-{tag}"
        prefix, label = self.split(tag)
        return f"{prefix}-{label}" if prefix else tag

    def fits(self, tag: str | None) -> bool:
        """Return whether a tag is missing, O, or of this form."""
        return tag is None or tag in MISSING or tag in _OUTSIDE or bool(self.split(tag)[0])


STANDARD = TagForm()


def find_form(values: Iterable[Any]) -> TagForm | None:
    """Return the form of all tags of a file, None if none of them has a label.

    Several prefixes of one label, or a prefix of all tags, decide. E-MAIL alone is a label. Without
    an O among them, tags need both prefix and label: they could be words or parts of speech.
    """
    strings = {value.strip() for value in values if isinstance(value, str)}
    tags = {value for value in strings if value not in MISSING} - {*_OUTSIDE}
    if not tags:
        return None
    if any(map(_OPENING.match, tags)):
        return STANDARD
    if form := _find_joined(tags):
        return form
    if not strings & {*_OUTSIDE}:
        return STANDARD
    if all(map(_BARE.fullmatch, tags)):
        return TagForm(kind="bare")
    return TagForm("") if _are_pairs(tags) else TagForm(kind="plain")


def are_tags(values: Collection[Any]) -> bool:
    """Return whether values are O and tags with prefix and label."""
    form = find_form(values)
    return form is not None and form.kind == "joined" and all(map(form.fits, values))


def find_form_of_labels(values: Iterable[Any]) -> TagForm | None:
    """Return the form of tags that stand in place of labels, None for labels.

    B-PER and I-PER are tags, and B-PER and B-LOC. B-CELL alone, or beside T-CELL, is a label.
    """
    tags = {value for value in values if isinstance(value, str)}
    form = _find_joined(tags)
    return form if len(tags) > 1 else None


def _find_joined(tags: Collection[str]) -> TagForm | None:
    forms = (TagForm(join, is_last) for is_last, join in product((False, True), _JOINS))
    return next((form for form in forms if _fits(form, tags)), None)


def _fits(form: TagForm, tags: Collection[str]) -> bool:
    pairs = [form.split(tag) for tag in tags]
    names = Counter(name for prefix, name in pairs if prefix)
    if any(n > 1 for n in names.values()):
        return True
    # E_MAIL may be a label, and B_DAY beside PHONE is one.
    start = {"B", "S", "U"} & {prefix for prefix, _ in pairs}
    return all(prefix for prefix, _ in pairs) and bool(start) and not any(map(str.islower, tags))


def _are_pairs(tags: Collection[str]) -> bool:
    """Return whether all tags are B or I and a label, as in BPER, and each I has its B."""
    names = {first: {tag[1:] for tag in tags if tag[0] == first} for first in "BI"}
    return bool(names["I"]) and names["I"] <= names["B"] and all(tag[0] in "BI" for tag in tags)
