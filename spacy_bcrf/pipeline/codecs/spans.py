"""The base of the codecs of spans: a tagging scheme."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, SENT_START  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span
from spacy.training import Example

from bcrf.chain import Potentials, SpanTags, span_candidates, span_posteriors
from bcrf.schemes import get_scheme
from spacy_bcrf.annotation import arrays
from spacy_bcrf.annotation.entity_tags import EntityTags, trim_whitespace
from spacy_bcrf.annotation.partial import read_annotated_labels

from .codec import Codec
from .codec_types import Floats, Ops, PredictedSpans, SpanArrays, Tags, Unit
from .option_checks import check_group_name
from .partial_gold import PartialSpans
from .span_tagging import SpanTagging


class SpanCodec(Codec):
    """Flat spans as tags of a scheme. Values (N, 2) are ENT_IOB and ENT_TYPE. See `Codec`."""

    what: str
    where_lost = "spaCy drops spans whose offsets do not match tokens, and warns. "
    attributes: ClassVar[arrays.Attributes] = (SENT_START, IS_SPACE)
    unit: ClassVar[Unit] = "span"
    spans: SpanTagging

    def __init__(self, scheme: str, restrictions: str, **settings: str) -> None:
        """scheme: BILUO, BIO or BIES. restrictions, settings: see `Codec`."""
        super().__init__({"scheme": scheme, **settings})
        self.scheme = get_scheme(scheme)
        self.predictions: Callable[[Any, Any], PredictedSpans] = self.scheme.decode_ids
        self.restrictions = restrictions
        self.tags_per_label = len(self.scheme.prefixes)

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        self.labels = tuple(labels)
        self._label_values = [strings.add(label) for label in labels]
        self.entities = EntityTags(self.scheme, labels, self._label_values)
        self.tags = self.scheme.tags(labels)
        self.constraints = self.entities.constraints
        self.spans = SpanTagging(self.entities)

    def trim(self, values: arrays.Values, examples: Sequence[Example]) -> arrays.Values:
        """Return gold ENT_IOB and ENT_TYPE (N, 2) whose spans have no whitespace at an edge."""
        docs = [example.predicted for example in examples]
        is_space = arrays.read_attributes(docs, (IS_SPACE,))[:, 0] == 1
        if not is_space.any():
            return values
        return trim_whitespace(values, is_space, arrays.is_first(arrays.doc_lengths(docs)))

    def encode(self, values: arrays.Values, lengths: Tags) -> tuple[NDArray, arrays.Bools]:
        iob, types = values.T
        return self.entities.gold(iob, types, arrays.is_first(lengths))

    def _tags_on(self, ops: Ops) -> SpanTags:
        """Return the tags of spans on the device of `ops`."""
        return SpanTags(*map(ops.asarray, self.spans.tags))

    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        found = span_candidates(posterior, self._tags_on(ops), threshold)
        starts, ends, labels, p = map(ops.to_numpy, found)
        return starts, ends, labels, p

    def interpret(self, doc: Doc, tags: Tags) -> list[Span]:
        lists = (part.tolist() for part in self.predictions(tags, arrays.doc_lengths([doc])))
        return [self.make_span(doc, *span) for span in zip(*lists, strict=True)]

    def compare_with_gold(
        self, tags: Tags, values: arrays.Values, lengths: Tags
    ) -> tuple[PredictedSpans, arrays.Bools, arrays.Bools]:
        """See `Codec.compare_with_gold`. All tokens of an annotated span have gold annotation."""
        iob, types = values.T
        first = arrays.is_first(lengths)
        starts, ends, labels = self.scheme.decode_ids(tags, lengths)
        gold, has_unknown_label = self.entities.encode(iob, types, first)
        # A token with an unknown label is annotated. Every prediction on it is wrong.
        missing = (gold == arrays.UNKNOWN) & ~has_unknown_label
        n_missing, n_wrong = (np.append(0, x.cumsum()) for x in (missing, gold != tags))
        known = n_missing[starts] == n_missing[ends]
        # A gold BIO entity can continue after the predicted one ends.
        continues = np.append(self.entities.continues(iob, first), False)[ends]
        correct = (n_wrong[starts] == n_wrong[ends]) & ~continues
        return (starts, ends, labels), correct & known, known

    def confidences(self, posterior: Potentials, predictions: PredictedSpans, ops: Ops) -> Floats:
        spans = (ops.asarray(part) for part in predictions)
        return ops.to_numpy(span_posteriors(posterior, self._tags_on(ops), *spans))


class PartialSpanCodec(SpanCodec):
    """Spans whose gold documents may annotate a part only, see `annotation.partial`."""

    def set_keys(self, incorrect_spans_key: str | None, ambiguous_spans_key: str | None) -> None:
        """Set the span groups of incorrect and of ambiguous spans; None ignores them."""
        self._keys = ambiguous_spans_key, incorrect_spans_key
        options = ("ambiguous_spans_key", "incorrect_spans_key")
        for option, key in zip(options, self._keys, strict=True):
            if key is not None:
                check_group_name(option, key)

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        super().set_labels(labels, strings)
        self.partial = PartialSpans(self.entities, self._keys)

    def find_labels(self, doc: Doc) -> set[str]:
        return self.find_used_labels(doc) | (read_annotated_labels(doc) or set())
