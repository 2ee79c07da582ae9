"""What a conversion read, wrote and left out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from spacy.attrs import ENT_IOB  # type: ignore[import-not-found]

from bcrf.chain.potentials import counted
from bcrf.io.text import CorpusError

from .make_doc import Made
from .record import Record
from .tokenization import TokenFit, TokenizerName


@dataclass
class CorpusCounts:
    """Numbers of records and of their annotation.

    A record is a sentence of columns, an object of JSON, or a document of brat. used: records in
    documents, which have several sentences, or several answers about one text. By reason, ignored:
    records that the annotator left open; skipped: records with a problem; left_out: spans that a
    Doc cannot have. uncounted: skipped records whose spans cannot be read. missing: tokens with
    missing entity annotation. unannotated: documents without spans, whose tokens are all missing.
    tags, pos: tokens with these values. unknown_spaces: documents for which neither the file nor
    the language says. scheme: of the entity tags, which the `repaired` tags violate; empty without
    tags. assumed_outside: words without an entity tag that became O. others: further contents that
    a Doc cannot have, by kind. tokenizer: of texts. fit: of the spans to tokens, if it was chosen.
    """

    unit: str = "records"
    docs: int = 0
    used: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    entities: int = 0
    ambiguous: int = 0
    rejected: int = 0
    repeated: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    ignored_spans: int = 0
    skipped_spans: int = 0
    uncounted: int = 0
    trimmed: int = 0
    tokens: int = 0
    missing: int = 0
    unannotated: int = 0
    tags: int = 0
    pos: int = 0
    unknown_spaces: int = 0
    scheme: str = ""
    repaired: int = 0
    assumed_outside: int = 0
    others: Counter[str] = field(default_factory=Counter)
    tokenizer: TokenizerName = "language"
    fit: TokenFit = field(default_factory=TokenFit)

    @property
    def records(self) -> int:
        return self.used + self.ignored.total() + self.skipped.total()

    @property
    def kept_spans(self) -> int:
        return self.entities + self.ambiguous + self.rejected + self.repeated

    @property
    def spans(self) -> int:
        return self.kept_spans + self.left_out.total() + self.ignored_spans + self.skipped_spans

    def add(self, record: Record, made: Made, spans_key: str | None) -> None:
        doc = made.doc
        self.docs += 1
        self.used += len(record.places)
        self.entities += made.entities
        self.ambiguous += made.ambiguous
        self.rejected += made.rejected
        self.left_out.update(problem.reason for problem in made.left_out)
        kept = made.entities + made.ambiguous + made.rejected + len(made.left_out)
        self.repeated += record.n_spans - kept
        self.trimmed += made.n_trimmed
        self.tokens += len(doc)
        for name in ("tags", "pos"):
            values = getattr(record, name) or ()
            setattr(self, name, getattr(self, name) + len(values) - values.count(None))
        self.unknown_spaces += doc.has_unknown_spaces
        if record.complete and not (record.missing or made.left_out):
            pass
        elif not (record.complete or record.n_spans):
            self.missing += len(doc)
            self.unannotated += 1
        elif spans_key is None:
            iob: Any = doc.to_array(ENT_IOB)
            self.missing += int((iob == 0).sum())
        elif not record.complete:
            spans = doc.spans.get(spans_key, ())
            self.missing += len(doc) - len({i for s in spans for i in range(s.start, s.end)})
        else:
            self.missing += sum(key[1] == "allowed_labels" for key in doc.user_data)

    def skip(self, places: Sequence[str], n_spans: int | None, reason: str) -> None:
        """Count skipped records, with the number of their spans, None if unknown."""
        self.skipped[reason] += len(places)
        self.skipped_spans += n_spans or 0
        self.uncounted += len(places) * (n_spans is None)

    def __str__(self) -> str:
        spans = {
            "entity" if self.entities == 1 else "entities": self.entities,
            "ambiguous": self.ambiguous,
            "rejected": self.rejected,
            "repeated": self.repeated,
            f"left out{_reasons(self.left_out)}": self.left_out.total(),
            f"in ignored {self.unit}": self.ignored_spans,
            f"in left out {self.unit}": self.skipped_spans,
        }
        summed = " + ".join(f"{n:,} {what}" for what, n in spans.items() if n)
        ignored, skipped = (
            f" + {found.total():,} {what}{_reasons(found)}" * bool(found.total())
            for found, what in ((self.ignored, "ignored"), (self.skipped, "left out"))
        )
        repaired = f", {self.repaired:,} of them repaired" * bool(self.repaired)
        scheme = f"entity tags in the scheme {self.scheme}{repaired}"
        unit = self.unit.removesuffix("s")
        more = [
            ("tag", "", self.tags),
            ("pos tag", "", self.pos),
            ("token", " without a tag taken as O", self.assumed_outside),
            ("doc", " without annotation", self.unannotated),
            ("doc", " with unknown spaces", self.unknown_spaces),
            (f"left out {unit}", " whose spans are not counted", self.uncounted),
            ("span", " trimmed of white space", self.trimmed),
        ]
        return "; ".join(
            [
                f"{counted(self.records, unit)} read = {self.used:,} in "
                f"{counted(self.docs, 'doc')}{ignored}{skipped}",
                f"{counted(self.spans, 'span')} = {summed}" if summed else "no spans",
                counted(self.tokens, "token")
                + f", {self.missing:,} of them without entity annotation" * bool(self.missing),
                *[scheme] * bool(self.scheme),
                *(f"{counted(n, what)}{rest}" for what, rest, n in more if n),
                *(f"{n:,} {what} left out" for what, n in self.others.items() if n),
            ]
        )


def _reasons(found: Counter[str]) -> str:
    return f" ({', '.join(f'{n:,} {reason}' for reason, n in found.most_common())})"


MAX_REPORTS = 20
"""Largest number of different problems that a conversion names."""
MAX_PLACES = 5
"""Largest number of places of equal problems, and of spans that are left out for one reason."""


class ProblemLog:
    """The first MAX_REPORTS different problems with places. fatal: a file cannot be read."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._n_equal = Counter[str]()
        self._n_more = 0
        self.fatal = False

    def add(self, message: str, n: int = 1, kind: str | None = None) -> None:
        """Count a problem of n records: `PLACE: PROBLEM`. MAX_PLACES of a kind are named."""
        place, _, problem = message.partition(": ")
        if kind is not None:
            self._n_equal[kind] += 1
        if kind is not None and self._n_equal[kind] > MAX_PLACES:
            self._n_more += n
        elif problem in self._places or len(self._places) < MAX_REPORTS:
            places = self._places.setdefault(problem, [])
            places += [place] * (len(places) < MAX_PLACES)
            self._n_equal[problem] += 1
        else:
            self._n_more += n

    def fail(self, error: CorpusError) -> None:
        self.fatal = True
        self._places.setdefault(str(error), [])

    def lines(self) -> list[str]:
        found = []
        for problem, places in self._places.items():
            n_more = self._n_equal[problem] - len(places)
            more = f" and {n_more:,} more" * bool(n_more)
            found.append(f"{', '.join(places)}{more}: " * bool(places) + problem)
        return found + [f"and {self._n_more:,} more problems"] * bool(self._n_more)
