"""What `redact` replaces, and what it nearly would, to review."""

from collections.abc import Iterable, Iterator
from typing import Any

from spacy.tokens import Doc
from spacy.util import filter_spans, minibatch

from spacy_bcrf.judging.prediction_records import MIN_CANDIDATE, read_predictions
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.privacy.redact import find_regions


def read_redaction(
    labeler: Any, docs: Iterable[Doc], max_alternatives: int, promise: Control, labels: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield documents with the spans that `redact` replaces by a promise of recall, and near ones.

    docs: annotated by all earlier components. labels: of the component, and gets others that are
    replaced. The score of a document is the probability of its most probable span that stays. See
    `read_predictions`.
    """
    for batch in minibatch(docs, BATCH_SIZE):
        replaced, scores = [], []
        for doc, regions in zip(batch, find_regions(labeler, batch, promise), strict=True):
            spans = {
                doc.char_span(r.start, r.end, r.label, alignment_mode="expand"): r.score
                for r in regions
            }
            labels += sorted({r.label for r in regions}.difference(labels))
            replaced.append(filter_spans(spans))
            scores.append({(span.start, span.end): p for span, p in spans.items()})
        read = read_predictions(labeler, batch, max_alternatives, replaced, MIN_CANDIDATE, labels)
        for document, known in zip(read, scores, strict=True):
            for span in document["spans"]:
                if span[4]:  # a union of spans has the probability of the best one
                    p = round(min(known[span[0], span[1]], 1), 4)
                    document["errors"] = round(document["errors"] + span[3] - p, 4)
                    span[3] = p
            left = [span[3] for span in document["spans"] if not span[4]]
            yield {**document, "score": max(left, default=0.0)}
