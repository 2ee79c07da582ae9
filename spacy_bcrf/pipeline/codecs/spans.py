"""What the codecs of spans share: a tagging scheme, and spans in place of tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.strings import StringStore
from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.arrays import UNKNOWN, Bools, Values, starts_document
from spacy_bcrf.annotation.entity_tags import EntityTags
from spacy_bcrf.annotation.schemes import get_scheme
from spacy_bcrf.chain import Potentials, SpanTags, span_posteriors
from spacy_bcrf.layers.protocol import Constraints

from .codec import Ops, Tags, Unit


class SpanCodec:
    """Spans that do not overlap, as the tags of a scheme. See `Codec`.

    Values are (N, 2), as spaCy holds entities: ENT_IOB and ENT_TYPE.
    """

    confidence_units: ClassVar[dict[str, Unit]] = {"confidence": "span", "tag_confidence": "token"}

    def __init__(self, scheme: str, restrictions: str, **settings: str) -> None:
        """scheme: BILUO, BIO or BIES. restrictions, settings: see `Codec`."""
        self.scheme = get_scheme(scheme)
        self.settings = {"scheme": scheme, **settings}
        self.restrictions = restrictions
        self.tags_per_label = len(self.scheme.prefixes)

    def check_label(self, label: str) -> None:
        """Any label is a label of spans."""

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        self.labels = tuple(labels)
        self._label_values = [strings.add(label) for label in labels]
        self.entities = EntityTags(self.scheme, labels, self._label_values)
        self.tags = self.scheme.tags(labels)
        self.constraints = Constraints(
            self.entities.transitions, self.entities.may_start, self.entities.may_end
        )

    def find_misspelled(self, docs: Sequence[Doc]) -> str:
        return ""

    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        iob, types = values.T
        return self.entities.gold(iob, types, starts_document(lengths))

    def has_partial_annotation(self, doc: Doc) -> bool:
        return False

    def constrain(self, example: Any, values: Values, allowed: Bools) -> list[Bools]:
        return []

    def kept(self, docs: Sequence[Doc], tags: Tags) -> Tags:
        return tags

    def interpret(self, doc: Doc, tags: Tags) -> list[Span]:
        lists = (part.tolist() for part in self.scheme.decode_ids(tags))
        return [self.make_span(doc, *span) for span in zip(*lists, strict=True)]

    def make_span(self, doc: Doc, start: int, end: int, label: int) -> Span:
        """Return a span of a document, by the index of its label."""
        return Span(doc, start, end, label=self._label_values[label])

    def span_tags(self, ops: Ops) -> SpanTags:
        """Return the tag ids of each label's spans, on the device of `ops`."""
        return SpanTags(*map(ops.asarray, self.entities.span_tags))

    def compare_with_gold(self, tags: Tags, values: Values, lengths: Tags) -> tuple[Any, Bools]:
        iob, types = values.T
        first = starts_document(lengths)
        starts, ends, labels = self.scheme.decode_ids(tags, lengths)
        gold, has_unknown_label = self.entities.encode(iob, types, first)
        # A token with an unknown label is annotated, and every prediction there is wrong.
        missing = (gold == UNKNOWN) & ~has_unknown_label
        n_missing, n_wrong = (np.append(0, x.cumsum()) for x in (missing, gold != tags))
        known = n_missing[starts] == n_missing[ends]
        # A gold BIO entity can continue where the predicted one ends.
        continues = np.append(self.entities.continues(iob, first), False)[ends]
        correct = (n_wrong[starts] == n_wrong[ends]) & ~continues
        return tuple(part[known] for part in (starts, ends, labels)), correct[known]

    def confidences(
        self, posterior: Potentials, predictions: Any, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) of spans, given as their starts, ends and labels."""
        spans = (ops.asarray(part) for part in predictions)
        return ops.to_numpy(span_posteriors(posterior, self.span_tags(ops), *spans))
