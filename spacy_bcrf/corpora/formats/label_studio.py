"""Label Studio's JSON exports: tasks with a text in `data` and its `annotations`.

The reader takes the ground truth, else the first annotation that the annotator did not cancel.
Tokens outside of its regions are O. A region with several labels is an ambiguous span.
"""

import json
from collections import Counter
from typing import Any

from bcrf.io.json_objects import Problem
from spacy_bcrf.corpora.record import Ignored, Record

from . import jsonl


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
    spans = [_read_region(result, text) for result in results if _is_region(result)]
    if left_out is not None:
        left_out["further annotations"] += len(valid) - 1
        left_out["results without text labels"] += len(results) - len(spans)
    return jsonl.read_record({"text": text, "spans": spans}, place, known_labels)


def count_regions(task: dict[str, Any]) -> int:
    """Count the regions that `read_record` takes, in an object of any shape."""
    annotations = task.get("annotations")
    found = [a for a in annotations if isinstance(a, dict)] if isinstance(annotations, list) else []
    found.sort(key=lambda annotation: bool(annotation.get("was_cancelled")))
    results = found[0].get("result") if found else None
    return sum(map(_is_region, results)) if isinstance(results, list) else 0


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
    return not isinstance(result, dict) or _labels_key(result.get("value")) is not None


def _read_region(result: Any, text: str) -> Any:
    if not isinstance(result, dict):
        return result  # `jsonl` names the problem
    value = result["value"]
    span = {key: value[key] for key in ("start", "end", "text") if key in value}
    span["label"] = value[_labels_key(value)]
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
