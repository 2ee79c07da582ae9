"""Prodigy's exports (`prodigy db-out`): one answered task per line.

- A manual interface (such as `ner_manual`): an accepted task has all spans. A rejected task is
  ignored, because it is unknown which span is wrong.
- A binary interface (`ner.teach`): the task has one span. An accepted span is an entity. A
  rejected span is no entity of its label. All other tokens are missing.
- An ignored task has no annotation.

`merge` makes one record of all answers about one text.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from bcrf.io.json_objects import Problem, read_objects
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Ignored, Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.writer import Task, write_lines

from . import jsonl

_BINARY_VIEWS = ("ner",)
_MANUAL_VIEWS = ("ner_manual", "spans_manual", "blocks")
# Fields of an earlier answer, which a new task must not have.
_ANSWER = ("answer", "_input_hash", "_task_hash", "_timestamp", "_view_id", "_is_binary")


def recognize(sample: Sample) -> bool:
    return "answer" in sample.fields


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    """Yield a record for each answer, see `merge`."""

    def read_one(fields: dict[str, Any], place: str) -> Record:
        record = read_record(fields, place, reading.labels)
        record.is_answer = True
        jsonl.count_unread(fields, reading)
        return record

    items = read_objects(sample.path, reading.advance)
    return reading.read_items(items, read_one, jsonl.count_spans)


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


def write_tasks(tasks: Iterable[Task], file: IO[str], name: str) -> None:
    """Write tasks of `ner.manual` and `spans.manual`, one on each line."""
    write_lines(map(_make_task, tasks), file)


def _make_task(task: Task) -> dict[str, Any]:
    """Return a task of Prodigy. `token_end` is inclusive."""
    spans, others = (
        [{**span, "token_end": span["token_end"] - 1} for span in task.predicted[key]]
        for key in ("predictions", "alternatives")
    )
    meta = task.fields.get("meta")
    return {
        **{key: value for key, value in task.fields.items() if key not in _ANSWER},
        "text": task.doc.text,
        "tokens": [
            {
                "text": token.text,
                "start": token.idx,
                "end": token.idx + len(token),
                "id": token.i,
                "ws": bool(token.whitespace_),
            }
            for token in task.doc
        ],
        "spans": spans,
        "alternatives": others,
        "meta": {**(meta if isinstance(meta, dict) else {}), "uncertainty": task.uncertainty},
    }
