"""Documents with predictions as tasks of annotation tools: Prodigy and Label Studio."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

from .review_page import read_predictions

Fields = dict[str, Any]

# Names of the tags in Label Studio's labeling config.
_LABELS, _TEXT = "label", "text"

# Fields of an earlier answer, which a new task must not have.
_ANSWER = ("answer", "_input_hash", "_task_hash", "_timestamp", "_view_id", "_is_binary")


def predict_spans(
    labeler: SequenceLabeler, docs: Iterable[Doc], max_alternatives: int
) -> Iterator[tuple[Doc, Fields]]:
    """Yield each document with `predictions` and `alternatives`.

    Both are lists of spans with `start` and `end` in characters, `token_start` and `token_end`
    (exclusive), `label` and `score`, the exact posterior probability. A tag is a span of one token.
    Alternatives are further spans of at least MIN_CANDIDATE, and overlap predictions or each other.

    docs: annotated by all earlier components. max_alternatives: largest number for each prediction.
    """
    for batch in minibatch(docs, BATCH_SIZE):
        for doc, fields in zip(
            batch, read_predictions(labeler, batch, max_alternatives), strict=True
        ):
            spans = fields["spans"]
            best = [span[:4] for span in spans if span[4]]
            suggested = [span[:4] for span in spans if not span[4]] if max_alternatives else []
            others = sorted([*suggested, *fields["alternatives"]])
            yield (
                doc,
                {
                    "predictions": [_describe(doc, labeler.labels, *span) for span in best],
                    "alternatives": [_describe(doc, labeler.labels, *span) for span in others],
                },
            )


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


def make_record(
    fields: Fields, uncertainty: float, doc: Doc, predicted: Fields, name: str
) -> Fields:
    """Return the fields of a text with its uncertainty, `predictions` and `alternatives`."""
    return {**fields, "uncertainty": uncertainty, **predicted}


def make_prodigy_task(
    fields: Fields, uncertainty: float, doc: Doc, predicted: Fields, name: str
) -> Fields:
    """Return a task of Prodigy's `ner.manual` and `spans.manual`, with tokens and spans.

    `token_end` is inclusive. `meta` has the uncertainty. Prodigy keeps `score` and `alternatives`,
    but does not show them.
    """
    spans, others = (
        [{**span, "token_end": span["token_end"] - 1} for span in predicted[key]]
        for key in ("predictions", "alternatives")
    )
    meta = fields.get("meta")
    return {
        **{key: value for key, value in fields.items() if key not in _ANSWER},
        "text": doc.text,
        "tokens": [
            {
                "text": token.text,
                "start": token.idx,
                "end": token.idx + len(token),
                "id": token.i,
                "ws": bool(token.whitespace_),
            }
            for token in doc
        ],
        "spans": spans,
        "alternatives": others,
        "meta": {**(meta if isinstance(meta, dict) else {}), "uncertainty": uncertainty},
    }


def make_label_studio_task(
    fields: Fields, uncertainty: float, doc: Doc, predicted: Fields, name: str
) -> Fields:
    """Return a task of Label Studio with pre-annotations, see `labeling_config`.

    `data` has the fields of the text and its uncertainty. `predictions` has the spans under the
    model version `name`, and the alternatives under `name alternatives`.
    """
    versions = (name, "predictions"), (f"{name} alternatives", "alternatives")
    predictions = []
    for version, key in versions:
        spans = predicted[key]
        if spans or key == "predictions":
            scores = [span["score"] for span in spans]
            predictions.append(
                {
                    "model_version": version,
                    "score": round(sum(scores) / len(scores), 4) if scores else 1.0,
                    "result": [_region(i, span, doc.text) for i, span in enumerate(spans)],
                }
            )
    return {"data": {**fields, "uncertainty": uncertainty}, "predictions": predictions}


def _region(i: int, span: Fields, text: str) -> Fields:
    start, end, label, score = (span[key] for key in ("start", "end", "label", "score"))
    return {
        "id": f"r{i}",
        "from_name": _LABELS,
        "to_name": _TEXT,
        "type": "labels",
        "score": score,
        "value": {
            "start": start,
            "end": end,
            "text": text[start:end],
            "labels": [label],
            "score": score,
        },
    }


def labeling_config(labels: Iterable[str]) -> str:
    """Return Label Studio's labeling config of a project for `make_label_studio_task`."""
    values = "".join(f"<Label value={quoteattr(label)}/>" for label in labels)
    return (
        f'<View><Labels name="{_LABELS}" toName="{_TEXT}">{values}</Labels>'
        f'<Text name="{_TEXT}" value="$text"/></View>'
    )
