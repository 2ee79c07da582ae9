"""Label Studio's JSON exports: tasks with a text in `data` and its `annotations`.

The reader takes the ground truth, else the first annotation that the annotator did not cancel.
Tokens outside of its regions are O. A region with several labels is an ambiguous span. The tokens
of a region without labels are missing.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any
from xml.sax.saxutils import quoteattr

from bcrf.io.json_objects import Problem, read_objects
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Ignored, Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.writer import Task

from . import jsonl

# Names of the tags in the labeling config.
_LABELS, _TEXT = "label", "text"


def recognize(sample: Sample) -> bool:
    fields = sample.fields
    return isinstance(fields.get("data"), dict) and not fields.keys() & {"text", "tokens"}


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    def read_one(task: dict[str, Any], place: str) -> Record:
        return read_record(task, place, reading.labels, reading.counts.others)

    items = read_objects(sample.path, reading.advance)
    return reading.read_items(items, read_one, count_regions)


def read_record(
    task: dict[str, Any],
    place: str,
    known_labels: frozenset[str] | None = None,
    left_out: Counter[str] | None = None,
) -> Record:
    """Read a task. left_out: counts contents that no record has. Ignored if not annotated."""
    data, annotations = task.get("data"), task.get("annotations")
    if not isinstance(data, dict) or not isinstance(annotations, list):
        raise Problem(
            "wrong type",
            'expected "data" and "annotations", as in Label Studio\'s JSON export (not JSON-MIN)',
        )
    if not all(isinstance(annotation, dict) for annotation in annotations):
        raise Problem("wrong type", 'each of "annotations" must be an object')
    if not annotations:
        raise Ignored("not annotated")
    valid = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    valid.sort(key=lambda annotation: annotation.get("ground_truth") is not True)
    if not valid:
        raise Ignored("cancelled")
    results = valid[0].get("result")
    if not isinstance(results, list):
        raise Problem("wrong type", '"result" of the annotation must be a list')
    text = _find_text(data)
    regions = [_read_region(result, text) for result in results if _is_region(result)]
    spans = [region for region in regions if not _lacks_label(region)]
    if left_out is not None:
        left_out["further annotations"] += len(valid) - 1
        left_out["results without text labels"] += len(results) - len(regions)
        left_out["regions without labels"] += len(regions) - len(spans)
    record = jsonl.read_record({"text": text, "spans": spans}, place, known_labels)
    anything = [{**region, "label": None} for region in regions if _lacks_label(region)]
    missing = jsonl.read_record({"text": text, "spans": anything}, place)
    record.missing = [record.trim(span)[:2] for span in missing.spans]
    return record


def count_regions(task: dict[str, Any]) -> int:
    """Count the regions that `read_record` takes, in an object of any shape."""
    annotations = task.get("annotations")
    found = [a for a in annotations if isinstance(a, dict)] if isinstance(annotations, list) else []
    found.sort(key=lambda annotation: bool(annotation.get("was_cancelled")))
    results = found[0].get("result") if found else None
    return sum(map(_has_labels, results)) if isinstance(results, list) else 0


def _find_text(data: dict[str, Any]) -> str:
    keys = ["text"] if "text" in data else [k for k, v in data.items() if isinstance(v, str)]
    if len(keys) != 1:
        found = ", ".join(data) or "nothing"
        raise Problem(
            "no text", f'"data" has no "text"; expected it, or exactly one string; found {found}'
        )
    text = data[keys[0]]
    if not isinstance(text, str):
        raise Problem(
            "wrong type", f'"text" in "data" must be a string, got {json.dumps(text)[:60]}'
        )
    return text


def _labels_key(value: Any) -> str | None:
    """Return the key of a region's labels: `labels`, or for instance `hypertextlabels`."""
    keys = value if isinstance(value, dict) else ()
    return next((key for key in keys if key.endswith("labels")), None)


def _is_region(result: Any) -> bool:
    """Return whether a result is a part of the text, also one that lost its labels."""
    value = result.get("value") if isinstance(result, dict) else None
    kind = result.get("type") if isinstance(result, dict) else None
    is_open = kind == "labels" and isinstance(value, dict) and {"start", "end"} <= value.keys()
    return _has_labels(result) or is_open


def _has_labels(result: Any) -> bool:
    return not isinstance(result, dict) or _labels_key(result.get("value")) is not None


def _lacks_label(region: Any) -> bool:
    return isinstance(region, dict) and not region["label"]


def _read_region(result: Any, text: str) -> Any:
    if not isinstance(result, dict):
        return result  # `jsonl` names the problem
    value = result["value"]
    span = {key: value[key] for key in ("start", "end", "text") if key in value}
    key = _labels_key(value)
    span["label"] = value[key] if key else None
    start, end, own = (span.get(key) for key in ("start", "end", "text"))
    if isinstance(start, int) and isinstance(end, int) and isinstance(own, str):
        span["start"], span["end"] = _count_characters(text, start, end, own)
    return span


def _count_characters(text: str, start: int, end: int, own: str) -> tuple[int, int]:
    """Return bounds in characters: versions before 2022 count UTF-16 units (their issue 1347)."""
    if start < 0 or end < start or text[start:end] == own:
        return start, end
    units = text.encode("utf-16-le", "surrogatepass")
    before, inside = (
        units[a:b].decode("utf-16-le", "replace") for a, b in ((0, 2 * start), (2 * start, 2 * end))
    )
    return (len(before), len(before) + len(inside)) if inside == own else (start, end)


def write_tasks(tasks: Iterable[Task], file: IO[str], name: str) -> None:
    """Write a list of tasks with pre-annotations. name: of the model, for its versions."""
    before = "[\n"
    for task in tasks:
        file.write(before + json.dumps(_make_task(task, name), ensure_ascii=False))
        before = ",\n"
    file.write("\n]\n" if before == ",\n" else "[]\n")


def _make_task(task: Task, name: str) -> dict[str, Any]:
    """Return a task with pre-annotations under two model versions."""
    versions = (name, "predictions"), (f"{name} alternatives", "alternatives")
    predictions = []
    for version, key in versions:
        spans = task.predicted[key]
        if spans or key == "predictions":
            scores = [span["score"] for span in spans]
            predictions.append(
                {
                    "model_version": version,
                    "score": round(sum(scores) / len(scores), 4) if scores else 1.0,
                    "result": [
                        _make_region(i, span, task.doc.text) for i, span in enumerate(spans)
                    ],
                }
            )
    return {"data": {**task.fields, "uncertainty": task.uncertainty}, "predictions": predictions}


def _make_region(i: int, span: dict[str, Any], text: str) -> dict[str, Any]:
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
    """Return Label Studio's labeling config of a project for `write_tasks`."""
    values = "".join(f"<Label value={quoteattr(label)}/>" for label in labels)
    return (
        f'<View><Labels name="{_LABELS}" toName="{_TEXT}">{values}</Labels>'
        f'<Text name="{_TEXT}" value="$text"/></View>'
    )
