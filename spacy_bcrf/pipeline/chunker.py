"""`bcrf_chunker`: flat chunks, such as those of CoNLL-2000, written to `doc.spans`."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_bcrf.annotation.arrays import Values, doc_lengths
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE, OUTSIDE
from spacy_bcrf.chain import Potentials

from .ner import EntityRecognizer
from .sequence_labeler import Prediction


class Chunker(EntityRecognizer):
    """Spans of a scheme that do not overlap; they respect sentence starts and whitespace.

    Learns from `reference.spans[spans_key]` where there is such a group, an empty one too, and
    replaces the group of a document.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str = "bcrf_chunker",
        *,
        scheme: str = "BIO",
        spans_key: str = "chunks",
        scorer: Callable | None = None,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
    ) -> None:
        """scheme: BILUO, BIO or BIES. annotate, temperature: see `SequenceLabeler`."""
        super().__init__(
            vocab,
            model,
            name,
            scheme=scheme,
            scorer=scorer,
            annotate=annotate,
            temperature=temperature,
            spans_key=spans_key,
        )
        self.restrictions = f"the scheme {scheme}, sentence starts or whitespace at an edge"

    @property
    def spans_key(self) -> str:
        return self.cfg["spans_key"]

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        docs = list(docs)
        if not docs:
            return
        tags = np.concatenate([prediction.tags for prediction in predictions])
        starts, ends, labels = self.scheme.decode_ids(tags, doc_lengths(docs))
        offsets = np.cumsum([0, *map(len, docs)])
        splits = starts.searchsorted(offsets).tolist()
        values = np.array(self._label_values(), dtype="uint64")[labels].tolist()
        for doc, prediction, offset, (a, b) in zip(
            docs, predictions, offsets.tolist(), pairwise(splits), strict=False
        ):
            places = zip(
                (starts[a:b] - offset).tolist(), (ends[a:b] - offset).tolist(), strict=True
            )
            doc.spans[self.spans_key] = [
                Span(doc, start, end, label=label)
                for (start, end), label in zip(places, values[a:b], strict=True)
            ]
            doc.user_data.update(prediction.user_data)

    def _read_preset(self, docs: Sequence[Doc]) -> Values:
        return np.zeros((sum(map(len, docs)), 2), dtype="uint64")

    def _is_marked(self, doc: Doc) -> bool:
        # What `supervision` reads is of entities.
        return False

    def _is_whole(self, doc: Doc) -> bool:
        return self.spans_key in doc.spans

    def _find_labels(self, doc: Doc) -> set[str]:
        return {span.label_ for span in doc.spans.get(self.spans_key, []) if span.label}

    def _read(self, doc: Doc, attributes: Sequence[int]) -> Values:
        spans = doc.spans.get(self.spans_key, None)
        words = doc.to_array(ORTH).reshape(-1, 1)
        return np.concatenate([words, _encode_spans(spans, len(doc))], axis=1)

    def _align(self, example: Example) -> Values:
        if self.spans_key not in example.reference.spans:
            return _encode_spans(None, len(example.predicted))
        spans = list(example.reference.spans[self.spans_key])
        aligned = example.get_aligned_spans_y2x(spans, allow_overlap=True)
        if len(aligned) < len(spans):
            raise ValueError(f"{len(spans) - len(aligned)} spans begin or end inside of a token")
        return _encode_spans(aligned, len(example.predicted))


def _encode_spans(spans: Iterable[Span] | None, length: int) -> Values:
    """(n, 2) as ENT_IOB and ENT_TYPE have entities; all missing for None."""
    values = np.zeros((length, 2), dtype="uint64")
    if spans is None:
        return values
    values[:, 0] = OUTSIDE
    for span in spans:
        if not len(span):
            raise ValueError(f"a span {span.label_!r} has no tokens, before token {span.start}")
        if not span.label:
            raise ValueError(f"the span {span.text!r} has no label")
        if values[span.start : span.end, 1].any():
            raise ValueError(f"the span {span.text!r} overlaps another one")
        values[span.start : span.end] = INSIDE, span.label
        values[span.start, 0] = BEGIN
    return values
