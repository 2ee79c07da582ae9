"""Counts of annotated and missing entities, tokens and tags in a corpus, by label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE, ORTH, POS, TAG  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import doc_lengths, read_doc
from spacy_bcrf.annotation.entity_tags import BEGIN, OUTSIDE
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    Bounds,
    PartialAnnotation,
    find_contradictions,
    read_allowed_tags,
    read_partial_annotation,
)
from spacy_bcrf.sparse.two_pass import are_long

ANY = ""
"""The label of spans of any label."""

MAX_NAMED = 10
"""Largest number of contradictions that `Inspection` names."""


class Row(NamedTuple):
    """Counts for one label.

    docs: documents with an entity of the label. entities, ambiguous, rejected: spans.
    contradictory: documents with a contradiction. inside: tokens in an entity of the label.
    outside: O tokens of documents that annotate the label. other: tokens in another entity, certain
    or possible. missing: all other tokens.
    """

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


T = TypeVar("T")


@dataclass
class Tags:
    """Counts for one token attribute. allowed: tokens with several allowed values."""

    values: Counter[int] = field(default_factory=Counter)
    missing: int = 0
    allowed: int = 0


@dataclass
class Inspection:
    """Counts for a corpus. `add` counts one document.

    ambiguous_key, incorrect_key: keys of the span groups; None to ignore them.
    """

    ambiguous_key: str | None = AMBIGUOUS
    incorrect_key: str | None = INCORRECT
    docs: int = 0
    tokens: int = 0
    with_context: int = 0
    """Tokens of documents that are long enough for the values of `two_pass`."""
    missing: int = 0
    """Tokens without any entity annotation."""
    contradictory: int = 0
    named: list[str] = field(default_factory=list)
    """The first MAX_NAMED contradictions, each with its document."""
    tags: dict[str, Tags] = field(default_factory=lambda: {"tag": Tags(), "pos": Tags()})
    labels: set[str] = field(default_factory=set)
    groups: dict[str, Counter[str]] = field(default_factory=dict)
    """Counts of the labels of all other span groups, by key."""
    _by_label: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in Row._fields[1:]}
    )
    _outside: Counter[frozenset[str] | None] = field(default_factory=Counter)
    """Tokens in no entity, by the annotated labels of their document; None for all labels."""
    _open: Counter[frozenset[str]] = field(default_factory=Counter)
    """Tokens with several possible labels, by the set of labels."""

    def add(self, doc: Doc, place: str) -> None:
        """Count a document. place: its name in messages about contradictions."""
        self.docs += 1
        self.tokens += len(doc)
        if are_long(read_doc(doc, [ORTH])[:, 0], doc_lengths([doc]))[0]:
            self.with_context += len(doc)
        self._add_tags(doc)
        keys = self.ambiguous_key, self.incorrect_key
        for key in doc.spans.keys() - {*keys}:
            of_group = (span.label_ for span in doc.spans[key])
            self.groups.setdefault(key, Counter()).update(of_group)
        try:
            entities = {(ent.start, ent.end): ent.label_ for ent in doc.ents}
        except ValueError as error:  # the entity has no first token
            self.missing += len(doc)
            self._name(doc, place, " ".join(str(error).split()))
            return
        partial = _only(*read_partial_annotation([Example(doc, doc)], *keys), PartialAnnotation())
        self._add_spans(entities, partial)
        self._add_tokens(doc, partial)
        if problems := find_contradictions(doc, partial, entities):
            labels = {label for problem in problems for label in problem.labels}
            self._by_label["contradictory"].update(labels)
            self._name(doc, place, "; ".join(problem.what for problem in problems))

    @property
    def has_entities(self) -> bool:
        """Whether the corpus has entity annotation; O counts as annotation."""
        return bool(self.labels) or self.missing < self.tokens

    def rows(self, labels: Iterable[str] = ()) -> list[Row]:
        """Return rows for these labels and for all labels of the corpus, sorted; ANY is last."""
        names = sorted({*labels, *self.labels} - {ANY})
        n_inside = self._by_label["inside"].total()
        rows = []
        for name in names + [ANY] * (ANY in self.labels):
            counts = {key: counter[name] for key, counter in self._by_label.items()}
            outside = sum(n for known, n in self._outside.items() if known is None or name in known)
            other = n_inside - counts["inside"]
            other += sum(n for choice, n in self._open.items() if not choice & {name, ANY})
            known = counts["inside"] + outside + other
            counts.update(outside=outside, other=other, missing=self.tokens - known)
            rows.append(Row(name, **counts))
        return rows

    def _name(self, doc: Doc, place: str, what: str) -> None:
        self.contradictory += 1
        if len(self.named) < MAX_NAMED:
            start = doc.text if len(doc.text) <= 40 else f"{doc.text[:40]}..."
            self.named.append(f"{place}, {start!r}: {what}")

    def _add_spans(self, entities: Mapping[Bounds, str], partial: PartialAnnotation) -> None:
        count = self._by_label
        count["docs"].update(set(entities.values()))
        count["entities"].update(entities.values())
        for (start, end), label in entities.items():
            count["inside"][label] += end - start
        for labels in partial.ambiguous.values():
            count["ambiguous"].update(labels)
        for labels in partial.incorrect.values():
            count["rejected"].update(labels)
        for key in ("entities", "ambiguous", "rejected"):
            self.labels.update(count[key])
        self.labels.update(partial.annotated_labels or ())
        for labels in partial.allowed.values():
            self.labels.update(labels - {"O"})

    def _add_tokens(self, doc: Doc, partial: PartialAnnotation) -> None:
        iob, types = read_doc(doc, (ENT_IOB, ENT_TYPE)).T
        outside = (types == 0) & ((iob == OUTSIDE) | (iob == BEGIN))
        choices = dict(partial.allowed)
        for (start, end), labels in partial.ambiguous.items():
            choices.update(dict.fromkeys(range(start, end), labels))
        for token, labels in choices.items():
            if not types[token]:
                outside[token] = False
                if labels == {"O"}:
                    self._outside[None] += 1
                else:
                    self._open[labels] += 1
        has_choice = np.isin(np.arange(len(doc)), list(choices))
        self.missing += int(((iob == 0) & ~has_choice).sum())
        self._outside[partial.annotated_labels] += int(outside.sum())

    def _add_tags(self, doc: Doc) -> None:
        for name, attribute in (("tag", TAG), ("pos", POS)):
            values = Counter(read_doc(doc, (attribute,))[:, 0].tolist())
            self.tags[name].missing += values.pop(0, 0)
            self.tags[name].values.update(values)
        self.tags["tag"].allowed += len(_only(*read_allowed_tags([Example(doc, doc)]), {}))


def _only(found: dict[int, T], problems: dict[int, str], default: T) -> T:
    """Return the annotation of a single example. ValueError for its problem."""
    if problems:
        raise ValueError(problems[0])
    return found.get(0, default)
