"""Spans under the names of other tools, translated to the `spans` of `jsonl`.

- Hugging Face: `tokens` and `ner_tags`, the tags' names or their ids.
- doccano: `label`, lists of start, end and label; newer versions: `entities`, objects with
  `start_offset` and `end_offset`.
- spaCy: `entities`, lists of start, end and label, or `ents`, objects with `start` and `end`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bcrf.io.json_objects import Problem
from bcrf.schemes import MISSING, read_spans

_NAMES = ("ner_tags", "entities", "ents", "label", "labels", "span")
_NAMES_OF_BOUNDS = {"start_offset": "start", "end_offset": "end"}


def translate_spans(fields: dict[str, Any], tags: Sequence[str] = ()) -> list[Any] | None:
    """Return the spans of an object without `spans`, None if it has none under any name.

    tags: the names of the tags in the order of their ids. Problem if the object has spans under
    several names, or tags that are no tags of entities.
    """
    found = [name for name in _NAMES if isinstance(fields.get(name), list)]
    if not found:
        return None
    if len(found) > 1:
        raise Problem(
            "several annotations", f'found {" and ".join(found)}; expected one, or "spans"'
        )
    values = fields[found[0]]
    return _read_tags(fields, tags) if found == ["ner_tags"] else [*map(_read_span, values)]


def count_spans(fields: dict[str, Any], tags: Sequence[str] = ()) -> int:
    """Count the spans of an object of any shape; 0 for tags that cannot be read."""
    try:
        return len(translate_spans(fields, tags) or ())
    except Problem:
        return 0


def _read_tags(fields: dict[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    tags, tokens = fields["ner_tags"], fields.get("tokens")
    if not isinstance(tokens, list) or len(tokens) != len(tags):
        n_tokens = f"{len(tokens)} tokens" if isinstance(tokens, list) else 'no list "tokens"'
        raise Problem("wrong type", f'"ner_tags" has {len(tags)} tags, but there are {n_tokens}')
    try:
        spans = read_spans([_read_tag(tag, names) for tag in tags])
    except Problem:
        raise
    except ValueError as error:
        raise Problem("no tag", f'"ner_tags", {error}') from None
    return [
        {"token_start": start, "token_end": end - 1, "label": label} for start, end, label in spans
    ]


def _read_tag(tag: Any, names: Sequence[str]) -> str:
    if isinstance(tag, str) and tag not in MISSING:
        return tag
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise Problem(
            "wrong type", f'each of "ner_tags" must be a tag or its id, got {json.dumps(tag)[:60]}'
        )
    if not names:
        raise Problem(
            "ids without names",
            f'"ner_tags" has the id {tag}; expected --labels with all tags in the order of their '
            "ids, such as O,B-PER,I-PER, or a file of them",
        )
    if not 0 <= tag < len(names):
        raise Problem(
            "unknown label", f'"ner_tags" has the id {tag}, but --labels has {len(names)} tags'
        )
    return names[tag]


def _read_span(item: Any) -> Any:
    if isinstance(item, list) and len(item) == 3:
        return dict(zip(("start", "end", "label"), item, strict=True))
    if isinstance(item, dict):
        return {_NAMES_OF_BOUNDS.get(key, key): value for key, value in item.items()}
    return item  # `jsonl` names the problem
