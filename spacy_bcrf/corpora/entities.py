"""Entity tags as files have them, in one of several schemes and not always valid, made IOB2."""

from collections.abc import Callable, Sequence

from spacy_bcrf.annotation.schemes import BIES, BILUO, BIO, Span, read_spans
from spacy_bcrf.io.text import Line

from .sentence import Sentence


def _encode_iob1(spans: Sequence[Span], length: int) -> list[str]:
    """IOB1 (CoNLL-2003): B only where an entity follows another one of its label at once."""
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
"""The schemes a file may have. The first that fits is taken to be the one of a file."""


class EntityReader:
    """Reads entity tags as conlleval does and counts them.

    The entities are the same whatever the scheme is; it only says which tags had to be repaired.
    So "auto" needs no second pass: it counts for each scheme that has all the prefixes seen, and
    in the end takes the one with the least repairs.
    """

    def __init__(self, scheme: str = "auto", *, complete: bool = False) -> None:
        """`complete`: words without a tag are outside of entities, not missing annotation."""
        if scheme not in ("auto", *SCHEMES):
            raise ValueError(f"unknown scheme {scheme!r}; expected auto, {', '.join(SCHEMES)}")
        self.complete = complete
        self.n_entities = 0
        self.n_missing = 0
        self.n_assumed_outside = 0
        self._repaired = dict.fromkeys(SCHEMES if scheme == "auto" else (scheme,), 0)
        self._first_lines: dict[str, Line] = {}
        self._checked: set[str | None] = {None, "O"}

    @property
    def scheme(self) -> str:
        return min(self._repaired, key=lambda name: self._repaired[name])

    @property
    def n_repaired(self) -> int:
        return self._repaired[self.scheme]

    def read(self, sentence: Sentence) -> list[str | None]:
        """Valid IOB2 tags with None for missing ones; CorpusError for what is no tag."""
        tags = sentence.entities
        for line, tag in zip(sentence.lines, tags, strict=True):
            if tag not in self._checked:
                self._check(line, str(tag))
        spans = read_spans(tags)
        if spans:
            for name in self._repaired:
                encoded = _ENCODE[name](spans, len(tags))
                self._repaired[name] += sum(
                    old is not None and old != new for old, new in zip(tags, encoded, strict=True)
                )
        self.n_entities += len(spans)
        iob2 = BIO.encode(spans, len(tags))
        if self.complete:
            self.n_assumed_outside += tags.count(None)
            return [*iob2]
        self.n_missing += tags.count(None)
        return [old if old is None else new for old, new in zip(tags, iob2, strict=True)]

    def _check(self, line: Line, tag: str) -> None:
        prefix, _, label = tag.partition("-")
        known = "".join(dict.fromkeys("".join(_PREFIXES[name] for name in self._repaired)))
        if len(prefix) == 1 and prefix in known and label:
            self._checked.add(tag)
            self._first_lines.setdefault(prefix, line)
            self._repaired = {
                name: count for name, count in self._repaired.items() if prefix in _PREFIXES[name]
            }
            return
        if len(prefix) == 1 and label and (clash := _clashing(prefix, self._first_lines)):
            first = self._first_lines[clash]
            raise line.error(
                f"entity tag {tag!r} is of another scheme than {clash}- in {first.path}:"
                f"{first.number}; expected all files to have one scheme"
            )
        raise line.error(
            f"{tag!r} is no entity tag; expected O, or one of {' '.join(known)} with a hyphen "
            "and a label, or _ where it is not known"
        )


def _clashing(prefix: str, seen: dict[str, Line]) -> str | None:
    """A prefix seen before that no scheme has together with this one."""
    schemes = [prefixes for prefixes in _PREFIXES.values() if prefix in prefixes]
    return next(
        (p for p in seen if schemes and not any(p in prefixes for prefixes in schemes)), None
    )
