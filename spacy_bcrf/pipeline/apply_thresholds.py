"""Thresholds on exact posteriors: dropped predictions, and the candidates of a recall promise."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, SpanGroup

from spacy_bcrf.annotation.arrays import UNKNOWN, split_spans

from .codecs.span_tagging import OUTSIDE_TAG
from .confidence import Predicted
from .settings import Control
from .span_decoder import HIGHEST, label_thresholds

CANDIDATES = "candidates"
"""The span group of a recall promise."""


def drop_uncertain(
    name: str, predicted: Predicted, control: Control | None, threshold: float | dict[str, float]
) -> NDArray[np.int32]:
    """Return tags without predictions below `precision_thresholds`: O for spans, else UNKNOWN."""
    minimum = precision_thresholds(name, predicted.codec.labels, control, threshold)
    if not minimum.any():
        return predicted.tags
    _, lengths, posterior, tags, codec, ops, *_ = predicted
    found, starts, ends = codec.locate(tags, lengths)
    dropped = codec.confidences(posterior, found, ops) < minimum.clip(max=HIGHEST)[found[2]]
    kept = tags.copy()
    for start, end in zip(starts[dropped].tolist(), ends[dropped].tolist(), strict=True):
        kept[start:end] = UNKNOWN if codec.spans is None else OUTSIDE_TAG
    return kept


def precision_thresholds(
    name: str, labels: Sequence[str], control: Control | None, threshold: float | dict[str, float]
) -> NDArray[np.float64]:
    """Return the least posterior of predictions by label, 0 for any. ValueError for others."""
    minimum = label_thresholds(name, labels, threshold)
    if control is not None and control.promise == "precision":
        promised = control.by_label(labels, -1)
        minimum = np.where(promised < 0, minimum, promised)
    return minimum


CandidateSpan = tuple[int, int, int, float]
"""Start, end, index of the label, posterior."""


def find_candidates(predicted: Predicted, control: Control) -> list[list[CandidateSpan]]:
    """Return the spans of each document whose posterior reaches the threshold of their label."""
    docs, _, posterior, _, codec, ops, *_ = predicted
    minimum = control.by_label(codec.labels, np.inf)
    if not (minimum <= 1).any():
        return [[] for _ in docs]
    starts, ends, labels, p = codec.candidates(posterior, float(minimum.min()), ops)
    likely = p >= minimum[labels]
    found: Any = split_spans(docs, starts[likely], ends[likely], labels[likely], p[likely])
    return found


def write_candidates(doc: Doc, labels: Sequence[str], candidates: Sequence[CandidateSpan]) -> None:
    """Write `doc.spans["candidates"]`, with the posteriors in its `attrs["scores"]`."""
    spans = [Span(doc, start, end, label=labels[label]) for start, end, label, _ in candidates]
    scores = np.array([p for *_, p in candidates], dtype="float32")
    doc.spans[CANDIDATES] = SpanGroup(doc, name=CANDIDATES, spans=spans, attrs={"scores": scores})
