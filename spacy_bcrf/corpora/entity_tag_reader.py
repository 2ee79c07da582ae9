"""Conversion of a file's entity tags, of any scheme and possibly invalid, to IOB2."""

import re
from collections.abc import Callable, Sequence

from bcrf.io.text import CorpusError, Line
from bcrf.schemes import BIES, BILUO, BIO, Span, read_spans

from .sentence import Sentence


def _encode_iob1(spans: Sequence[Span], length: int) -> list[str]:
    """Encode in IOB1 (CoNLL-2003): B only for an entity right after one of the same label."""
    tags = BIO.encode(spans, length)
    previous_end, previous_label = 0, ""
    for start, end, label in spans:
        if (start, label) != (previous_end, previous_label):
            tags[start] = f"I-{label}"
        previous_end, previous_label = end, label
    return tags


_ENCODE: dict[str, Callable[[Sequence[Span], int], list[str]]] = {
    "bio": BIO.encode,
    "iob1": _encode_iob1,
    "biluo": BILUO.encode,
    "bies": BIES.encode,
}
_PREFIXES = {"bio": "BI", "iob1": "BI", "biluo": "BILU", "bies": "BIES"}

SCHEMES = tuple(_ENCODE)
"""Schemes of entity tags in files. "auto" takes the first of several with the fewest repairs."""


_NO_LABEL = re.compile(r"^O$|[|,;/+#& ]([BILUESMW][-_:]|O$)")
"""No label of an entity: O, and several tags in one column."""


class EntityTagReader:
    """Read entity tags as conlleval does, and count them.

    scheme: one of SCHEMES, or "auto". complete: words without a tag are O, not missing. Only the
    number of repaired tags depends on the scheme. So one pass counts the repairs for every scheme
    with all prefixes of the file, and "auto" takes the one with the fewest.
    """

    def __init__(self, scheme: str = "auto", *, complete: bool = False) -> None:
        if scheme not in ("auto", *SCHEMES):
            raise ValueError(f"unknown scheme {scheme!r}; expected auto, {', '.join(SCHEMES)}")
        self.complete = complete
        self.n_tags = 0
        self.n_assumed_outside = 0
        self._given = scheme
        self._repaired = dict.fromkeys(SCHEMES, 0)
        """By schemes with all prefixes so far."""
        self._first_lines: dict[str, Line] = {}
        self._checked = {"O"}

    @property
    def scheme(self) -> str:
        """The given scheme, or that with the fewest repairs so far."""
        return self._best() if self._given == "auto" else self._given

    @property
    def n_repaired(self) -> int:
        return self._repaired[self.scheme]

    @property
    def better_scheme(self) -> str | None:
        """The scheme with fewer repairs than the given one, if there is one."""
        return self._best() if self._repaired[self._best()] < self.n_repaired else None

    def _best(self) -> str:
        return min(self._repaired, key=lambda name: self._repaired[name])

    def read(self, sentence: Sentence) -> list[str | None]:
        """Return valid IOB2 tags, None for missing ones. CorpusError names a bad tag's line."""
        tags = sentence.entities
        self._check(sentence)
        spans = read_spans(tags)
        if spans:
            for name in self._repaired:
                encoded = _ENCODE[name](spans, len(tags))
                self._repaired[name] += sum(
                    old is not None and old != new for old, new in zip(tags, encoded, strict=True)
                )
        self.n_tags += len(tags) - tags.count(None)
        iob2 = BIO.encode(spans, len(tags))
        if self.complete:
            self.n_assumed_outside += tags.count(None)
            return [*iob2]
        return [old if old is None else new for old, new in zip(tags, iob2, strict=True)]

    def _check(self, sentence: Sentence) -> None:
        """Keep the schemes with all prefixes of the sentence."""
        new: set[str] = set()
        schemes, first_lines = tuple(self._repaired), dict(self._first_lines)
        for line, tag in zip(sentence.lines, sentence.entities, strict=True):
            if tag is None or tag in self._checked or tag in new:
                continue
            prefix, _, label = tag.partition("-")
            names = schemes if self._given == "auto" else (self._given,)
            known = "".join(dict.fromkeys("".join(_PREFIXES[name] for name in names)))
            if len(prefix) != 1 or prefix not in known or not label or _NO_LABEL.search(label):
                raise _error(line, tag, known, first_lines)
            new.add(tag)
            first_lines.setdefault(prefix, line)
            schemes = tuple(name for name in schemes if prefix in _PREFIXES[name])
        # Only now: a malformed sentence may be skipped, and must not decide about later ones.
        if new:
            self._checked |= new
            self._first_lines = first_lines
            self._repaired = {name: self._repaired[name] for name in schemes}


def _error(line: Line, tag: str, known: str, first_lines: dict[str, Line]) -> CorpusError:
    prefix, _, label = tag.partition("-")
    schemes = [prefixes for prefixes in _PREFIXES.values() if prefix in prefixes]
    clash = next((old for old in first_lines if not any(old in x for x in schemes)), None)
    if len(prefix) == 1 and label and schemes and clash:
        first = first_lines[clash]
        return line.error(
            f"entity tag {tag!r} and {clash}- in {first.path}:{first.number} are of different "
            "schemes; expected the same scheme in all files"
        )
    return line.error(
        f"{tag!r} is no entity tag; expected O, or one of {' '.join(known)} with a hyphen "
        "and a label, or _ if it is missing"
    )
