"""The codec of words and their parts of speech, as spans of characters."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, POS, TAG  # type: ignore[import-not-found]
from spacy.parts_of_speech import IDS as UPOS  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.annotation.arrays import (
    UNKNOWN,
    Bools,
    DocBatch,
    Values,
    align_values,
    allowed_tags,
    read_doc_attributes,
)
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE
from spacy_bcrf.annotation.word_tags import merge_characters, read_words

from .codec_types import PredictedSpans, ScoredSpans, Tags, Unit
from .spans import SpanCodec
from .tags import check_attribute, check_upos


class WordCodec(SpanCodec):
    """Words as spans of characters, tokens of the prediction, in the scheme BIES. Space is O."""

    what = "words with a tag"
    where_lost = ""
    unit: ClassVar[Unit] = "word"

    def __init__(self, attribute: str) -> None:
        """attribute: "tag" or "pos", the attribute of gold words to predict."""
        check_attribute(attribute)
        super().__init__("BIES", "sentence starts", attribute=attribute)
        self._attribute = attribute
        self._ids = (TAG, POS) if attribute == "tag" else (POS, TAG)

    def check_label(self, label: str) -> None:
        check_upos(self._attribute, label)

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        super().set_labels(labels, strings)
        values = zip(labels, self._label_values, strict=True)
        words = [(value, value if label in UPOS else 0) for label, value in values]
        by_tag = [(0, 0), *(word for word in words for _ in self.scheme.prefixes)]
        self._values = np.array(by_tag, dtype="uint64")

    def find_labels(self, doc: Doc) -> set[str]:
        values, is_space = read_doc_attributes(doc, (self._ids[0], IS_SPACE)).T
        return {doc.vocab.strings[value] for value in np.unique(values[is_space == 0]) if value}

    def find_spans(self, doc: Doc) -> list[Span]:
        words = enumerate(read_doc_attributes(doc, (self._ids[0], IS_SPACE)).tolist())
        return [Span(doc, i, i + 1, label=tag) for i, (tag, is_space) in words if not is_space]

    def align_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        """Return the gold words as spans of characters (N, 2), and problems by example."""
        # Always align: only `read_words` recognizes a reference without words.
        return align_values(examples, 2, partial(read_words, attribute=self._ids[0]))

    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        """See `Codec.encode`. A word without a tag allows its boundaries with every label."""
        iob, types = values.T
        untagged = ((iob == BEGIN) | (iob == INSIDE)) & (types == 0)
        if not untagged.any() or not self._label_values:
            return super().encode(values, lengths)
        # A word without a tag has known boundaries. Encode the first label, then allow all labels.
        known = np.column_stack([iob, np.where(untagged, self._label_values[0], types)])
        ids, is_unknown = super().encode(known, lengths)
        allowed = allowed_tags(ids, len(self.tags))
        of_first_label = allowed[untagged, 1 : 1 + self.tags_per_label]
        allowed[untagged, 1:] = np.tile(of_first_label, len(self._label_values))
        return allowed, is_unknown

    def unannotated(self, doc: Doc) -> Bools:
        values, is_space = read_doc_attributes(doc, (self._ids[0], IS_SPACE)).T
        return (values == 0) & (is_space == 0)

    def length(self, span: Span) -> int | None:
        """Return the number of characters."""
        return len(span.text)

    def check_promise(self, promise: str) -> None:
        """Raise ValueError: a text has no gaps between words."""
        raise ValueError("words cannot be left out: thresholds need entities, chunks or tags")

    def open_tags(
        self, batch: DocBatch, ignore_annotation: bool = False
    ) -> tuple[Bools | None, Bools | None]:
        sent_start, is_space = (batch.values[:, :2] == 1).T
        allowed = np.empty((len(is_space), len(self.tags)), dtype=bool)
        allowed[:, 0], allowed[:, 1:] = is_space, ~is_space[:, None]
        new_sentence = sent_start & ~batch.is_first
        allowed[new_sentence] &= self.entities.may_start
        return allowed, None

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], spans: Sequence[ScoredSpans | None]
    ) -> list[Doc]:
        """Merge characters into words. One with the tag UNKNOWN is a word without a tag."""
        ids = np.concatenate(tags)
        starts = self.entities.may_start[ids] | (ids == UNKNOWN)
        return merge_characters(docs, starts, self._ids, self._values[ids[starts].clip(min=0)])

    def compare_with_gold(
        self, tags: Tags, values: Values, lengths: Tags
    ) -> tuple[PredictedSpans, Bools, Bools]:
        # A word without a gold tag is unannotated.
        return super().compare_with_gold(tags, np.where(values[:, 1:] == 0, 0, values), lengths)
