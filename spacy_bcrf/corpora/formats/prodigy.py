"""Prodigy's exports (`prodigy db-out`): one answer to one task a line.

- By hand (`ner_manual` and the like), accepted: all spans there are. Rejected: of no use, since
  it is not said what is wrong with them.
- Yes or no about a span (`ner.teach`): accepted, it is an entity; rejected, it is none of that
  type; the rest of the text was not looked at.
- Ignored: nothing.

What is known of one text is one record, see `merge`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from spacy_bcrf.io.json_objects import Ignored, Problem

from .jsonl import Record

_BINARY_VIEWS = ("ner",)
_MANUAL_VIEWS = ("ner_manual", "spans_manual", "blocks")


def translate(task: dict[str, Any], left_out: Counter[str]) -> dict[str, Any]:
    """The fields that `jsonl.parse` reads."""
    answer = task.get("answer")
    if answer == "ignore":
        raise Ignored("ignored by the annotator")
    if answer not in ("accept", "reject"):
        raise Problem(
            "wrong type", f'"answer" must be accept, reject or ignore, got {json.dumps(answer)}'
        )
    is_binary = _is_binary(task)
    fields = {"text": task.get("text"), "tokens": task.get("tokens"), "complete": not is_binary}
    spans = task.get("spans")
    if answer == "accept":
        return {**fields, "spans": spans}
    if not is_binary:
        raise Ignored("rejected as a whole")
    if isinstance(spans, list) and len(spans) != 1:
        raise Ignored(f"rejected with {len(spans)} spans instead of one")
    return {**fields, "rejected": spans}


def _is_binary(task: dict[str, Any]) -> bool:
    """Older versions do not say which interface it was; that for spans by hand needs tokens."""
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
    """One record of all that is known of a text. Problem where a record that is complete lacks a
    span of another one."""
    spans = [mark for record in records for mark in record.spans]
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
        [mark for record in records for mark in record.rejected],
        None,
        any(record.complete for record in records),
        sum(record.n_trimmed for record in records),
    )
