"""The codec of named entities, `Doc.ents`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE, IS_SPACE, SENT_START  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.annotation import arrays
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE, MISSING, OUTSIDE
from spacy_bcrf.annotation.misaligned import MisalignedSpan, find_misaligned
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    find_partial_labels,
)

from .codec_types import ScoredSpans, Tags
from .spans import PartialSpanCodec

ATTRIBUTES = (ENT_IOB, ENT_TYPE)


class EntityCodec(PartialSpanCodec):
    """Entities as tags of a scheme, under sentence starts, whitespace and preset entities."""

    what = "entities"
    attributes: ClassVar[arrays.Attributes] = (ENT_IOB, SENT_START, IS_SPACE)

    def __init__(
        self,
        scheme: str,
        incorrect_spans_key: str | None = INCORRECT,
        ambiguous_spans_key: str | None = AMBIGUOUS,
    ) -> None:
        """scheme: BILUO, BIO or BIES. The keys name groups of `annotation.partial`, or None."""
        restrictions = (
            f"the scheme {scheme}, preset entities, sentence starts or whitespace at an edge"
        )
        super().__init__(scheme, restrictions)
        self.set_keys(incorrect_spans_key, ambiguous_spans_key)

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        super().set_labels(labels, strings)
        opening = (self.scheme.first, self.scheme.single)
        codes = [BEGIN if prefix in opening else INSIDE for prefix in self.scheme.prefixes]
        values = [(code, value) for value in self._label_values for code in codes]
        # The last row is for UNKNOWN, which is -1.
        self._values = np.array([(OUTSIDE, 0), *values, (MISSING, 0)], dtype="uint64")

    def find_spans(self, doc: Doc) -> list[Span]:
        """Return the entities; none if spaCy cannot read them."""
        try:
            return list(doc.ents)
        except ValueError:
            return []

    def find_misaligned(self, doc: Doc) -> list[MisalignedSpan]:
        return find_misaligned(doc)

    def find_used_labels(self, doc: Doc) -> set[str]:
        """Return the labels that a span of a gold document has. ValueError for a label `!X`."""
        values = np.unique(doc.to_array(ENT_TYPE)).tolist()
        in_entities = {doc.vocab.strings[value] for value in values if value}
        if wrong := sorted(label for label in in_entities if label.startswith("!")):
            raise ValueError(
                f"entity label {wrong[0]!r}: spaCy no longer marks wrong entities by !. Add "
                f"the span to doc.spans[{INCORRECT!r}], with the label {wrong[0][1:]!r}"
            )
        return in_entities | find_partial_labels(doc, self._keys)

    def align_gold(self, examples: Sequence[Example]) -> tuple[arrays.Values, dict[int, str]]:
        """Return gold ENT_IOB and ENT_TYPE (N, 2), and problems by example."""
        values, problems = arrays.align_values(
            examples, 2, self._align, lambda doc: arrays.read_doc_attributes(doc, ATTRIBUTES)
        )
        return self.trim(values, examples), problems

    def _align(self, example: Example) -> arrays.Values:
        values = np.zeros((len(example), 2), dtype="uint64")
        for i, tag in enumerate(example.get_aligned_ner()):
            if tag == "O":
                values[i] = OUTSIDE, 0
            elif tag not in (None, "", "-"):
                prefix, _, label = tag.partition("-")
                code = BEGIN if prefix in ("B", "U") else INSIDE
                values[i] = code, example.reference.vocab.strings[label]
        return values

    def unannotated(self, doc: Doc) -> arrays.Bools:
        return arrays.read_doc_attributes(doc, (ENT_IOB,))[:, 0] == 0

    def open_tags(
        self, batch: arrays.DocBatch, ignore_annotation: bool = False
    ) -> tuple[arrays.Bools | None, arrays.Bools | None]:
        """Return the tags that preset entities, sentence starts and whitespace allow."""
        iob, sent_start, is_space = batch.values[:, : len(self.attributes)].T
        if ignore_annotation:
            iob = np.zeros_like(iob)
        if not (iob.any() or is_space.any() or (sent_start == 1)[~batch.is_first].any()):
            return None, None
        types = arrays.read_attributes(batch, (ENT_TYPE,))[:, 0] if iob.any() else iob
        allowed = self.entities.lattice(iob, types, sent_start == 1, is_space == 1, batch.is_first)
        return allowed, (is_space == 1) & (iob != BEGIN) & (iob != INSIDE)

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], spans: Sequence[ScoredSpans | None]
    ) -> list[Doc]:
        """Set `Doc.ents`. Blocked tokens and entities with an unknown label stay."""
        # NumPy is slow for arrays of a few tokens.
        values = self._values.take(np.concatenate(tags), axis=0)
        columns, end = list(ATTRIBUTES), 0
        for doc, ids in zip(docs, tags, strict=True):
            start, end = end, end + len(ids)
            of_doc: Any = values[start:end]
            if doc.has_annotation(ENT_IOB):
                of_doc = self.entities.keep_foreign(
                    arrays.read_doc_attributes(doc, ATTRIBUTES), of_doc
                )
            doc.from_array(columns, of_doc)
        return list(docs)
