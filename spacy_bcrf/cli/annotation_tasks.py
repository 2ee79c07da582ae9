"""Documents with predictions as tasks of annotation tools: Prodigy and Label Studio."""

from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import quoteattr

from spacy.tokens import Doc

Fields = dict[str, Any]

# Names of the tags in Label Studio's labeling config.
_LABELS, _TEXT = "label", "text"

# Fields of an earlier answer, which a new task must not have.
_ANSWER = ("answer", "_input_hash", "_task_hash", "_timestamp", "_view_id", "_is_binary")


def make_record(
    fields: Fields, uncertainty: float, doc: Doc, predicted: Fields, name: str
) -> Fields:
    return {**fields, "uncertainty": uncertainty, **predicted}


def make_prodigy_task(
    fields: Fields, uncertainty: float, doc: Doc, predicted: Fields, name: str
) -> Fields:
    """Return a task of Prodigy's `ner.manual` and `spans.manual`. `token_end` is inclusive."""
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
    """Return a task of Label Studio with pre-annotations under two model versions."""
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
