"""The codec of flat spans in a span group, `Doc.spans[key]`."""

from collections.abc import Iterable, Sequence

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.annotation import arrays
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE, OUTSIDE
from spacy_bcrf.annotation.misaligned import MisalignedSpan, find_misaligned

from .codec_types import ScoredSpans, Tags
from .option_checks import check_group_name
from .span_tagging import OUTSIDE_TAG
from .spans import SpanCodec


class SpanGroupCodec(SpanCodec):
    """Flat spans as tags of a scheme, under sentence starts and whitespace.

    A reference without the span group is unannotated, one with an empty group has no spans.
    """

    def __init__(self, scheme: str, spans_key: str, also: str = "", **settings: str) -> None:
        """scheme: BILUO, BIO or BIES. spans_key: of the group. also, settings: of a subclass."""
        restrictions = f"the scheme {scheme}, {also}sentence starts or whitespace at an edge"
        super().__init__(scheme, restrictions, spans_key=spans_key, **settings)
        check_group_name("spans_key", spans_key)
        self.what = f"doc.spans[{spans_key!r}]"
        self._key = spans_key

    def find_labels(self, doc: Doc) -> set[str]:
        return {span.label_ for span in doc.spans.get(self._key, []) if span.label}

    def find_spans(self, doc: Doc) -> list[Span]:
        spans = doc.spans.get(self._key, ())
        return list({(span.start, span.end, span.label): span for span in spans}.values())

    def find_misaligned(self, doc: Doc) -> list[MisalignedSpan]:
        return find_misaligned(doc, self._key)

    def align_gold(self, examples: Sequence[Example]) -> tuple[arrays.Values, dict[int, str]]:
        """Return the gold spans as ENT_IOB and ENT_TYPE (N, 2), and problems by example."""
        values, problems = arrays.align_values(examples, 2, self._align, self._read)
        return self.trim(values, examples), problems

    def _read(self, doc: Doc) -> arrays.Values:
        spans = self.find_spans(doc) if self._key in doc.spans else None
        return _encode_spans(spans, len(doc))

    def _align(self, example: Example) -> arrays.Values:
        if self._key not in example.reference.spans:
            return _encode_spans(None, len(example.predicted))
        # Report the problem of an invalid group, not a misalignment.
        self._read(example.reference)
        spans = align_spans(example, self.find_spans(example.reference))
        return _encode_spans(spans, len(example.predicted))

    def unannotated(self, doc: Doc) -> arrays.Bools:
        """Return a mask (n,) of all tokens if the document has no span group, else of none."""
        return np.full(len(doc), self._key not in doc.spans)

    def open_tags(
        self, batch: arrays.DocBatch, ignore_annotation: bool = False
    ) -> tuple[arrays.Bools | None, arrays.Bools | None]:
        sent_start, is_space = (batch.values[:, :2] == 1).T
        missing = np.zeros(len(is_space), dtype="uint64")
        allowed = self.entities.lattice(missing, missing, sent_start, is_space, batch.is_first)
        return allowed, is_space

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], spans: Sequence[ScoredSpans | None]
    ) -> list[Doc]:
        ids = np.concatenate(tags).clip(min=OUTSIDE_TAG)
        found = self.predictions(ids, arrays.doc_lengths(docs))
        for doc, of_doc in zip(docs, arrays.split_spans(docs, *found), strict=True):
            doc.spans[self._key] = [self.make_span(doc, *span) for span in of_doc]
        return list(docs)


def check_span(span: Span) -> None:
    if not len(span):
        raise ValueError(f"the span {span.label_!r} before token {span.start} has no tokens")
    if not span.label:
        raise ValueError(f"the span {span.text!r} has no label")


def has_space_edge(span: Span) -> bool:
    return len(span) > 0 and (span[0].is_space or span[-1].is_space)


def align_spans(example: Example, spans: list[Span]) -> list[Span]:
    """Return gold spans as spans of the predicted document. ValueError within a token."""
    aligned = example.get_aligned_spans_y2x(spans, allow_overlap=True)
    if len(aligned) < len(spans):
        raise ValueError(f"{len(spans) - len(aligned)} spans start or end within a token")
    return aligned


def _encode_spans(spans: Iterable[Span] | None, length: int) -> arrays.Values:
    """Return spans as ENT_IOB and ENT_TYPE (n, 2). None means missing annotation."""
    if spans is None:
        return np.zeros((length, 2), dtype="uint64")
    # Lists, because NumPy is slow for spans of a few tokens.
    iob, types = [OUTSIDE] * length, [0] * length
    for span in spans:
        start, end, label = span.start, span.end, span.label
        check_span(span)
        if any(types[start:end]):
            raise ValueError(
                f"the span {span.text!r} overlaps another span; only bcrf_spans learns both"
            )
        types[start:end] = [label] * (end - start)
        iob[start:end] = [BEGIN] + [INSIDE] * (end - start - 1)
    return np.array((iob, types), dtype="uint64").T
