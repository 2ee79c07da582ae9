"""Label Studio's exports as JSON: tasks with `data`, the text, and `annotations` of it.

The first annotation that was not cancelled (skipped) counts. Its regions are all entities there
are; the type of one with several labels is one of them.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from spacy_bcrf.io.json_objects import Ignored, Problem


def translate(task: dict[str, Any], left_out: Counter[str]) -> dict[str, Any]:
    """The fields that `jsonl.parse` reads. left_out: counts what has no place in these."""
    data, annotations = task.get("data"), task.get("annotations")
    if not isinstance(data, dict) or not isinstance(annotations, list):
        raise Problem(
            "wrong type",
            'expected "data" and "annotations", as Label Studio exports to JSON (not JSON-MIN)',
        )
    if not all(isinstance(annotation, dict) for annotation in annotations):
        raise Problem("wrong type", 'each of "annotations" must be an object')
    if not annotations:
        raise Ignored("not annotated")
    valid = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    if not valid:
        raise Ignored("cancelled")
    results = valid[0].get("result")
    if not isinstance(results, list):
        raise Problem("wrong type", '"result" of the annotation must be a list')
    text = _find_text(data)
    spans = [_read_region(result, text) for result in results if _is_region(result)]
    left_out["further annotations"] += len(valid) - 1
    left_out["results that label no text"] += len(results) - len(spans)
    return {"text": text, "spans": spans}


def count_regions(task: dict[str, Any]) -> int:
    """How many regions the annotation that counts has, or the first where none does; whatever the
    task is."""
    annotations = task.get("annotations")
    found = [a for a in annotations if isinstance(a, dict)] if isinstance(annotations, list) else []
    found.sort(key=lambda annotation: bool(annotation.get("was_cancelled")))
    results = found[0].get("result") if found else None
    return sum(map(_is_region, results)) if isinstance(results, list) else 0


def _find_text(data: dict[str, Any]) -> str:
    """That of the field `text`, or of the only one."""
    keys = ["text"] if "text" in data else [k for k, v in data.items() if isinstance(v, str)]
    if len(keys) != 1:
        found = ", ".join(data) or "nothing"
        raise Problem("no text", f'no "text" in "data", and not one string alone; found {found}')
    text = data[keys[0]]
    if not isinstance(text, str):
        raise Problem(
            "wrong type", f'"text" in "data" must be a string, got {json.dumps(text)[:60]}'
        )
    return text


def _labels_key(value: Any) -> str | None:
    """`labels`; those of other data, such as `hypertextlabels`, have other offsets, which the
    check for numbers finds."""
    keys = value if isinstance(value, dict) else ()
    return next((key for key in keys if key.endswith("labels")), None)


def _is_region(result: Any) -> bool:
    return not isinstance(result, dict) or _labels_key(result.get("value")) is not None


def _read_region(result: Any, text: str) -> Any:
    if not isinstance(result, dict):
        return result  # for `parse` to complain of
    value = result["value"]
    span = {key: value[key] for key in ("start", "end", "text") if key in value}
    span["label"] = value[_labels_key(value)]
    start, end, said = (span.get(key) for key in ("start", "end", "text"))
    if isinstance(start, int) and isinstance(end, int) and isinstance(said, str):
        span["start"], span["end"] = _count_characters(text, start, end, said)
    return span


def _count_characters(text: str, start: int, end: int, said: str) -> tuple[int, int]:
    """Bounds in characters. Versions before 2022 have them in UTF-16 code units, of which emoji
    have two each (its issue 1347)."""
    if start < 0 or end < start or text[start:end] == said:
        return start, end
    units = text.encode("utf-16-le", "surrogatepass")
    before, inside = (
        units[a:b].decode("utf-16-le", "replace") for a, b in ((0, 2 * start), (2 * start, 2 * end))
    )
    return (len(before), len(before) + len(inside)) if inside == said else (start, end)
