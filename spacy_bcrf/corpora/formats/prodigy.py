"""Prodigy's exports (`prodigy db-out`): one answered task per line.

- A manual interface (such as `ner_manual`): an accepted task has all spans. A rejected task is
  ignored, because it is unknown which span is wrong.
- A binary interface (`ner.teach`): the task has one span. An accepted span is an entity. A
  rejected span is no entity of its label. All other tokens are missing.
- An ignored task has no annotation.

`merge` makes one record of all answers about one text.
"""

import json
from collections.abc import Sequence
from typing import Any

from bcrf.io.json_objects import Problem
from spacy_bcrf.corpora.record import Ignored, Record

from . import jsonl

_BINARY_VIEWS = ("ner",)
_MANUAL_VIEWS = ("ner_manual", "spans_manual", "blocks")


def read_record(
    task: dict[str, Any], place: str, known_labels: frozenset[str] | None = None
) -> Record:
    """Read an answered task, see `jsonl.read_record`. Ignored if it has no usable annotation."""
    answer = task.get("answer")
    if answer == "ignore":
        raise Ignored("ignored by the annotator")
    if answer not in ("accept", "reject"):
        raise Problem(
            "wrong type", f'"answer" must be accept, reject or ignore, got {json.dumps(answer)}'
        )
    is_binary = _is_binary(task)
    spans = task.get("spans")
    if answer == "reject" and not is_binary:
        raise Ignored("rejected as a whole")
    if answer == "reject" and isinstance(spans, list) and len(spans) != 1:
        raise Ignored(f"rejected with {len(spans)} spans instead of one")
    fields = {
        "text": task.get("text"),
        "tokens": task.get("tokens"),
        "spans" if answer == "accept" else "rejected": spans,
        "complete": not is_binary,
    }
    return jsonl.read_record(fields, place, known_labels)


def _is_binary(task: dict[str, Any]) -> bool:
    """Return whether the interface asks about one span. Older tasks with tokens are manual."""
    if isinstance(flag := task.get("_is_binary"), bool):
        return flag
    view = task.get("_view_id")
    if view is None:
        return "tokens" not in task
    if view not in (*_BINARY_VIEWS, *_MANUAL_VIEWS):
        expected = ", ".join((*_BINARY_VIEWS, *_MANUAL_VIEWS))
        raise Problem("another task", f'"_view_id" {json.dumps(view)}; expected one of {expected}')
    return view in _BINARY_VIEWS


def merge(records: Sequence[Record]) -> Record:
    """Merge the records of one text. Problem if a complete record lacks a span of another one."""
    spans = [span for record in records for span in record.spans]
    for record in records:
        if record.complete and (others := set(spans) - set(record.spans)):
            start, end, labels = min(others)
            content = repr(record.text[start:end]) if record.text else ""
            raise Problem(
                "contradiction",
                f"span {start}:{end} {content} {' or '.join(labels)} is not in "
                f"{record.places[0]}, which is annotated in full",
            )
    return Record(
        [place for record in records for place in record.places],
        records[0].text,
        next((record.words for record in records if record.words), None),
        spans,
        [span for record in records for span in record.rejected],
        complete=any(record.complete for record in records),
    )
