"""Predictions of documents as plain values."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_bcrf.corpora.writer import DocPredictions, SpanRecord
from spacy_bcrf.pipeline.sequence_labeler import Prediction, SequenceLabeler


class Predictor:
    """Run a pipeline and collect predictions of some components. n_alternatives: labelings.

    with_dropped: to predict once more without thresholds. ValueError without alternatives.
    """

    def __init__(
        self, nlp: Language, names: Sequence[str], n_alternatives: int, with_dropped: bool
    ) -> None:
        self.nlp, self.names = nlp, names
        self.n_alternatives, self.with_dropped = n_alternatives, with_dropped
        for name in names:
            labeler = nlp.get_pipe(name)
            assert isinstance(labeler, SequenceLabeler)
            if n_alternatives and labeler.codec.unit == "word":
                raise ValueError(f"{name} changes the tokens and has no alternatives")
            labeler.annotate = tuple(dict.fromkeys((*labeler.annotate, "confidence")))

    def predict(self, docs: Sequence[Doc]) -> list[DocPredictions]:
        """Annotate a batch. An exception of a component leaves the documents in no usable state."""
        docs = list(docs)
        spans, alternatives, candidates, dropped = ([[] for _ in docs] for _ in range(4))  # type: ignore[var-annotated]
        for name, pipe in self.nlp.pipeline:
            if name not in self.names or not isinstance(pipe, SequenceLabeler):
                docs = list(pipe.pipe(docs)) if hasattr(pipe, "pipe") else [pipe(d) for d in docs]
                continue
            if self.n_alternatives:
                # Before `write`, so that annotation of earlier components stays preset.
                found = pipe.nbest(docs, self.n_alternatives, ignore_annotation=False)
                for doc, more, labelings in zip(docs, alternatives, found, strict=True):
                    for labeling, p in labelings:
                        values = [_describe(span) for span in as_spans(doc, labeling)]
                        more.append({"pipe": name, "probability": round(p, 6), "spans": values})
            predictions = pipe.predict(docs)
            if self.with_dropped and (pipe.threshold or pipe.control):
                for doc, more, kept, full in zip(
                    docs, dropped, predictions, predict_all(pipe, docs), strict=True
                ):
                    chosen = {_bounds(span) for span in _spans(pipe, doc, kept)}
                    left = [s for s in _spans(pipe, doc, full) if _bounds(s) not in chosen]
                    more += _with_probabilities(pipe, doc, left, full)
            docs = pipe.write(docs, predictions)
            for i, (doc, prediction) in enumerate(zip(docs, predictions, strict=True)):
                written = pipe.codec.find_spans(doc)
                spans[i] += _with_probabilities(pipe, doc, written, prediction)
                for start, end, label, p in prediction.candidates or ():
                    span = pipe.codec.make_span(doc, start, end, label)
                    candidates[i].append(_with_probability(pipe, span, p))
        parts = zip(docs, spans, alternatives, candidates, dropped, strict=True)
        return [DocPredictions(*of_doc) for of_doc in parts]


def predict_all(pipe: SequenceLabeler, docs: Sequence[Doc]) -> list[Prediction]:
    """Predict without thresholds."""
    settings = pipe.settings.change(pipe.name, {"threshold": 0.0, "control": None})
    return pipe.predict(docs, settings)


def as_spans(doc: Doc, labeling: Sequence[Span | str]) -> list[Span]:
    """Return a labeling of `Codec.interpret` as spans: a tag is a span of one token."""
    return [
        Span(doc, i, i + 1, label=value) if isinstance(value, str) else value
        for i, value in enumerate(labeling)
    ]


def _spans(pipe: SequenceLabeler, doc: Doc, prediction: Prediction) -> list[Span]:
    known = prediction.tags >= 0  # a dropped tag is unknown
    if known.all():
        return as_spans(doc, pipe.codec.interpret(doc, prediction.tags))
    spans = as_spans(doc, pipe.codec.interpret(doc, prediction.tags.clip(min=0)))
    return [span for span in spans if known[span.start]]


def _bounds(span: Span) -> tuple[int, int, int]:
    return span.start, span.end, span.label


def _describe(span: Span) -> SpanRecord:
    return {"start": span.start_char, "end": span.end_char, "label": span.label_}


def _with_probabilities(
    pipe: SequenceLabeler, doc: Doc, spans: Iterable[Span], prediction: Prediction
) -> Iterator[SpanRecord]:
    predicted, p_of_predicted = prediction.spans or ((), np.zeros(0))
    bounds = [_bounds(pipe.codec.make_span(doc, *span)) for span in predicted]
    scores = dict(zip(bounds, p_of_predicted.tolist(), strict=True))
    for span in spans:
        key = pipe.codec.confidence_key(span.start_char, span.end_char)
        p = scores.get(_bounds(span), prediction.user_data.get(key))
        yield _with_probability(pipe, span, p)


def _with_probability(pipe: SequenceLabeler, span: Span, p: float | None) -> SpanRecord:
    p = None if p is None else round(p, 6)
    return {"pipe": pipe.name, **_describe(span), "probability": p}
