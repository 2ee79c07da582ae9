"""What a corpus says of each label: where it is, where it is not, where nobody looked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE, POS, TAG  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import read_doc
from spacy_bcrf.annotation.entity_tags import BEGIN, OUTSIDE
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    Bounds,
    PartialAnnotation,
    find_contradictions,
    has_allowed_tags,
    has_partial_annotation,
    read_allowed,
    read_partial_annotation,
)

ANY = ""
"""The label of spans of any."""

MAX_NAMED = 10


class Row(NamedTuple):
    """Of one label: docs with an entity of it, spans, docs with a contradiction, and tokens: in
    one, in none at all, otherwise known not to be in one, and not known."""

    label: str
    docs: int
    entities: int
    ambiguous: int
    rejected: int
    contradictory: int
    inside: int
    outside: int
    other: int
    missing: int


@dataclass
class Tags:
    """Of a token attribute: how often each value, tokens without, tokens with a choice of some."""

    values: Counter[int] = field(default_factory=Counter)
    missing: int = 0
    allowed: int = 0


@dataclass
class Inspection:
    """ambiguous_key, incorrect_key: of the spans; None to leave them out."""

    ambiguous_key: str | None = AMBIGUOUS
    incorrect_key: str | None = INCORRECT
    docs: int = 0
    tokens: int = 0
    missing: int = 0
    """Tokens that nothing is said of, as to entities."""
    contradictory: int = 0
    named: list[str] = field(default_factory=list)
    """The first contradictions, each with its document."""
    tags: dict[str, Tags] = field(default_factory=lambda: {"tag": Tags(), "pos": Tags()})
    labels: set[str] = field(default_factory=set)
    _by_label: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in Row._fields[1:]}
    )
    _outside: Counter[frozenset[str] | None] = field(default_factory=Counter)
    """Tokens in no entity by the labels that were annotated there, None for all."""
    _open: Counter[frozenset[str]] = field(default_factory=Counter)
    """Tokens by the types that they may be in, if they are of a choice."""

    def add(self, doc: Doc, place: str) -> None:
        """place: the name of the document."""
        self.docs += 1
        self.tokens += len(doc)
        self._add_tags(doc)
        try:
            entities = {(ent.start, ent.end): ent.label_ for ent in doc.ents}
        except ValueError as error:  # an entity that goes on without a beginning
            self.missing += len(doc)
            self._name(doc, place, " ".join(str(error).split()))
            return
        markings = PartialAnnotation()
        if has_partial_annotation(doc, (self.ambiguous_key, self.incorrect_key)):
            markings = read_partial_annotation(
                Example(doc, doc), self.ambiguous_key, self.incorrect_key
            )
        self._add_spans(entities, markings)
        self._add_tokens(doc, markings)
        if problems := find_contradictions(doc, markings, entities):
            labels = {label for problem in problems for label in problem.labels}
            self._by_label["contradictory"].update(labels)
            self._name(doc, place, "; ".join(problem.what for problem in problems))

    @property
    def has_entities(self) -> bool:
        """Whether anything is said of entities, or that there are none."""
        return bool(self.labels) or self.missing < self.tokens

    def rows(self, labels: Iterable[str] = ()) -> list[Row]:
        """Of these labels, all that were found, and ANY if there are such spans."""
        names = sorted({*labels, *self.labels} - {ANY})
        n_inside = self._by_label["inside"].total()
        rows = []
        for name in names + [ANY] * (ANY in self.labels):
            counts = {key: counter[name] for key, counter in self._by_label.items()}
            outside = sum(n for known, n in self._outside.items() if known is None or name in known)
            other = n_inside - counts["inside"]
            other += sum(n for types, n in self._open.items() if not types & {name, ANY})
            known = counts["inside"] + outside + other
            counts.update(outside=outside, other=other, missing=self.tokens - known)
            rows.append(Row(name, **counts))
        return rows

    def _name(self, doc: Doc, place: str, what: str) -> None:
        self.contradictory += 1
        if len(self.named) < MAX_NAMED:
            start = doc.text if len(doc.text) <= 40 else f"{doc.text[:40]}..."
            self.named.append(f"{place}, {start!r}: {what}")

    def _add_spans(self, entities: Mapping[Bounds, str], markings: PartialAnnotation) -> None:
        count = self._by_label
        count["docs"].update(set(entities.values()))
        count["entities"].update(entities.values())
        for (start, end), label in entities.items():
            count["inside"][label] += end - start
        for labels in markings.ambiguous.values():
            count["ambiguous"].update(labels)
        for labels in markings.incorrect.values():
            count["rejected"].update(labels)
        for key in ("entities", "ambiguous", "rejected"):
            self.labels.update(count[key])
        self.labels.update(markings.annotated_labels or ())
        for types in markings.allowed.values():
            self.labels.update(types - {"O"})

    def _add_tokens(self, doc: Doc, markings: PartialAnnotation) -> None:
        iob, types = read_doc(doc, (ENT_IOB, ENT_TYPE)).T
        outside = (types == 0) & ((iob == OUTSIDE) | (iob == BEGIN))
        choices = dict(markings.allowed)
        for (start, end), labels in markings.ambiguous.items():
            choices.update(dict.fromkeys(range(start, end), labels))
        for token, labels in choices.items():
            if not types[token]:
                outside[token] = False
                if labels == {"O"}:
                    self._outside[None] += 1
                else:
                    self._open[labels] += 1
        said = np.isin(np.arange(len(doc)), list(choices))
        self.missing += int(((iob == 0) & ~said).sum())
        self._outside[markings.annotated_labels] += int(outside.sum())

    def _add_tags(self, doc: Doc) -> None:
        for name, attribute in (("tag", TAG), ("pos", POS)):
            values = Counter(read_doc(doc, (attribute,))[:, 0].tolist())
            self.tags[name].missing += values.pop(0, 0)
            self.tags[name].values.update(values)
        if has_allowed_tags(doc):
            self.tags["tag"].allowed += len(read_allowed(Example(doc, doc), "allowed_tags"))
