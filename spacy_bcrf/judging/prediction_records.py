"""Predicted spans with probabilities, suggestions and alternatives, as JSON values."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span
from spacy.util import minibatch

from bcrf.chain import entropy
from spacy_bcrf.annotation.arrays import doc_lengths, split_spans
from spacy_bcrf.pipeline.confidence import by_document
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

Fields = dict[str, Any]

MIN_CANDIDATE = 0.01
"""Smallest probability of an alternative."""
MAX_ALTERNATIVES = 5
"""Alternatives of a span in tasks and on the page of `review`."""
MIN_SUGGESTION = 0.1
"""Smallest probability of a suggestion, a span that is not predicted."""


class ScoredSpan(NamedTuple):
    """A span. start, end: tokens, `end` is exclusive. label: the index of its label."""

    start: int
    end: int
    label: int
    probability: float


def read_predictions(
    labeler: SequenceLabeler,
    docs: Iterable[Doc],
    max_alternatives: int,
    gold: Iterable[Sequence[Span]] | None = None,
    least: float = MIN_SUGGESTION,
    labels: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """Yield each document with its spans and their probabilities, as JSON.

    docs: annotated by all earlier components. max_alternatives: largest number for each span.
    gold: the spans of each document in its tokens, which take the place of the predicted ones.
    labels: of gold spans, by default the component's, and these first.

    - `text`, and `starts` and `ends` of its tokens in characters (code points).
    - `spans`: [start, end, label, probability, whether it is predicted] in tokens. The others are
      suggestions of at least the probability `least`, which overlap no span, or none of their
      label if spans may overlap.
    - `alternatives`: [start, end, label, probability] of further spans that overlap these.
    - `errors`: the expected number of wrong and of missed spans. `entropy`: in nats per token.
    """
    codec, ops, labels = labeler.codec, labeler.model.ops, labels or labeler.labels
    gold = None if gold is None else iter(gold)
    for batch in minibatch(docs, BATCH_SIZE):
        potentials = labeler.find_potentials(batch)
        posterior = labeler.posterior(potentials)
        lengths = doc_lengths(batch)
        predicted = codec.predictions(labeler.decode(potentials), lengths)
        p = labeler.confidences(posterior, predicted)
        found = codec.candidates(posterior, MIN_CANDIDATE, ops)
        entropies = by_document(ops.to_numpy(entropy(posterior)), codec).tolist()
        by_doc = split_spans(batch, *predicted, p), split_spans(batch, *found), entropies
        for doc, best, candidates, value in zip(batch, *by_doc, strict=True):
            spans = [ScoredSpan(*span) for span in best]
            others = [ScoredSpan(*span) for span in candidates]
            if gold is not None:
                known = {span[:3]: span.probability for span in others}
                places = [(s.start, s.end, labels.index(s.label_)) for s in next(gold)]
                spans = [ScoredSpan(*place, known.get(place, 0.0)) for place in places]
            yield {
                "text": doc.text,
                "starts": [token.idx for token in doc],
                "ends": [token.idx + len(token) for token in doc],
                **_choose(spans, others, max_alternatives, codec.layered is not None, least),
                "entropy": round(value / max(1, len(doc)), 4),
            }


def _choose(
    predicted: list[ScoredSpan],
    candidates: list[ScoredSpan],
    n: int,
    may_overlap: bool,
    least: float,
) -> dict[str, Any]:
    """Return `spans`, `alternatives` (n of each) and `errors`, see `read_predictions`."""

    def is_excluded(span: ScoredSpan) -> bool:
        others = (s for s in shown if _overlap(s, span))
        return any(not may_overlap or s.label == span.label for s in others)

    shown = list(predicted)
    known = {span[:3] for span in predicted}
    others = [span for span in candidates if span[:3] not in known]
    others.sort(key=lambda span: -span.probability)
    for span in others:
        if span.probability >= least and not is_excluded(span):
            shown.append(span)
    known = {span[:3] for span in shown}
    alternatives: set[ScoredSpan] = set()
    for span in shown:
        near = (s for s in others if s[:3] not in known and _overlap(s, span))
        alternatives.update(islice(near, n))
    errors = sum(1 - s.probability for s in predicted) + sum(s.probability for s in others)
    return {
        "spans": sorted([*_rounded(span), i < len(predicted)] for i, span in enumerate(shown)),
        "alternatives": sorted(map(_rounded, alternatives)),
        "errors": round(errors, 4),
    }


def _rounded(span: ScoredSpan) -> list[Any]:
    return [*span[:3], round(min(span.probability, 1), 4)]


def _overlap(one: ScoredSpan, other: ScoredSpan) -> bool:
    return one.start < other.end and other.start < one.end


def predict_spans(
    labeler: SequenceLabeler, docs: Iterable[Doc], max_alternatives: int
) -> Iterator[tuple[Doc, Fields]]:
    """Yield each document with `predictions` and `alternatives`.

    Both are lists of spans with `start` and `end` in characters, `token_start` and `token_end`
    (exclusive), `label` and `score`, the exact posterior probability. See `read_predictions`.
    """
    for batch in minibatch(docs, BATCH_SIZE):
        predictions = read_predictions(labeler, batch, max_alternatives)
        for doc, fields in zip(batch, predictions, strict=True):
            spans = fields["spans"]
            best = [span[:4] for span in spans if span[4]]
            suggested = [span[:4] for span in spans if not span[4]] if max_alternatives else []
            others = sorted([*suggested, *fields["alternatives"]])
            found = {"predictions": best, "alternatives": others}
            yield doc, {k: [_describe(doc, labeler.labels, *s) for s in found[k]] for k in found}


def _describe(
    doc: Doc, labels: Sequence[str], start: int, end: int, label: int, score: float
) -> Fields:
    span = doc[start:end]
    return {
        "start": span.start_char,
        "end": span.end_char,
        "token_start": start,
        "token_end": end,
        "label": labels[label],
        "score": score,
    }
