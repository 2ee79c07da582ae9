"""Named entities: `Doc.ents`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from spacy.attrs import (  # type: ignore[import-not-found]
    ENT_IOB,
    ENT_TYPE,
    IS_SPACE,
    SENT_START,
)
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import (
    Bools,
    Values,
    doc_lengths,
    read_doc,
    read_docs,
    read_gold,
    starts_document,
)
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE, OUTSIDE
from spacy_bcrf.annotation.extensions import UserData
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    find_contradictions,
    find_labels,
    has_partial_annotation,
    read_annotated_labels,
    read_partial_annotation,
)
from spacy_bcrf.chain import Potentials

from .codec import Ops, Tags
from .spans import SpanCodec

ATTRIBUTES = (ENT_IOB, ENT_TYPE)


class EntityCodec(SpanCodec):
    """Entities, which respect sentence starts, whitespace and the entities a document has."""

    def __init__(
        self,
        name: str,
        scheme: str,
        incorrect_spans_key: str | None = INCORRECT,
        ambiguous_spans_key: str | None = AMBIGUOUS,
    ) -> None:
        """scheme: BILUO, BIO or BIES.
        incorrect_spans_key, ambiguous_spans_key: the span groups of gold documents with rejected
        entities and with entities of an uncertain type, see `annotation.partial`.
        """
        restrictions = (
            f"the scheme {scheme}, preset entities, sentence starts or whitespace at an edge"
        )
        super().__init__(scheme, restrictions)
        self._name = name
        self._keys = ambiguous_spans_key, incorrect_spans_key

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        super().set_labels(labels, strings)
        opening = (self.scheme.first, self.scheme.single)
        codes = [BEGIN if prefix in opening else INSIDE for prefix in self.scheme.prefixes]
        values = [(code, value) for value in self._label_values for code in codes]
        self._values = np.array([(OUTSIDE, 0), *values], dtype="uint64")

    def find_labels(self, doc: Doc) -> set[str]:
        return self._find_used(doc) | (read_annotated_labels(doc) or set())

    def _find_used(self, doc: Doc) -> set[str]:
        values = np.unique(doc.to_array(ENT_TYPE)).tolist()
        in_entities = {doc.vocab.strings[value] for value in values if value}
        return in_entities | find_labels(doc, self._keys)

    def find_misspelled(self, docs: Sequence[Doc]) -> str:
        annotated = set().union(*(read_annotated_labels(doc) or () for doc in docs))
        if not annotated:
            return ""
        unused = sorted(annotated.difference(*map(self._find_used, docs)))
        if not unused:
            return ""
        return (
            f"annotated_labels has {', '.join(unused)}, but no entity and no other span of the "
            "training data has this label. Check the spelling"
        )

    def read_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        return read_gold(examples, 2, self._align, partial(read_doc, attributes=ATTRIBUTES))

    def _align(self, example: Example) -> Values:
        values = np.zeros((len(example), 2), dtype="uint64")
        for i, tag in enumerate(example.get_aligned_ner()):
            if tag == "O":
                values[i] = OUTSIDE, 0
            elif tag not in (None, "", "-"):
                prefix, _, label = tag.partition("-")
                code = BEGIN if prefix in ("B", "U") else INSIDE
                values[i] = code, example.reference.vocab.strings[label]
        return values

    def has_partial_annotation(self, doc: Doc) -> bool:
        return has_partial_annotation(doc, self._keys)

    def is_whole(self, doc: Doc) -> bool:
        return bool(read_doc(doc, (ENT_IOB,)).all())

    def constrain(self, example: Example, values: Values, allowed: Bools) -> list[Bools]:
        annotation = read_partial_annotation(example, *self._keys)
        iob, types = values.T
        if annotation.allowed or annotation.ambiguous or annotation.incorrect:
            entities = self.entities.spans(iob, types)
            problems = find_contradictions(example.predicted, annotation, entities)
            if problems:
                raise ValueError("; ".join(problem.what for problem in problems))
        wrong = self.entities.constrain(allowed, iob, annotation)
        return [self.entities.pin(allowed, *span) for span in wrong]

    def lattice(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> Bools | None:
        return self._open_tags(docs, ignore_annotation)[0]

    def restrict(
        self, potentials: Potentials, docs: Sequence[Doc], ops: Ops, ignore_annotation: bool = False
    ) -> Potentials:
        allowed, is_loose = self._open_tags(docs, ignore_annotation)
        if allowed is not None:
            potentials = potentials.restrict(ops.asarray(allowed))
        if self.entities.is_end_open and is_loose.any():
            return self.entities.forbid_ends(potentials, is_loose)
        return potentials

    def _open_tags(
        self, docs: Sequence[Doc], ignore_annotation: bool
    ) -> tuple[Bools | None, Bools]:
        """Return the lattice, and a mask of whitespace outside of preset entities (N,)."""
        iob, types, sent_start, is_space = read_docs(docs, (*ATTRIBUTES, SENT_START, IS_SPACE)).T
        if ignore_annotation:
            iob, types = np.zeros_like(iob), np.zeros_like(types)
        first = starts_document(doc_lengths(docs))
        allowed, unknown = self.entities.lattice(iob, types, sent_start == 1, is_space == 1, first)
        if unknown.any():
            label = docs[0].vocab.strings[types[unknown][0].item()]
            raise ValueError(
                f"[{self._name}] a document already has an entity of type {label!r}, which the "
                f"component does not know. It knows {', '.join(self.labels)}; "
                f"add_label({label!r}) makes it known"
            )
        return allowed, (is_space == 1) & (iob != BEGIN) & (iob != INSIDE)

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], data: Sequence[UserData]
    ) -> list[Doc]:
        for doc, ids, user_data in zip(docs, tags, data, strict=True):
            values: Any = self._values[ids]
            if doc.has_annotation(ENT_IOB):
                old = read_doc(doc, ATTRIBUTES)
                blocked = (old[:, :1] == BEGIN) & (old[:, 1:] == 0)
                values = np.where(blocked, old, values)
            doc.from_array(list(ATTRIBUTES), values)
            doc.user_data.update(user_data)
        return list(docs)
