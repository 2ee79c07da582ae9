"""Annotation under the names of other tools, translated to the `spans` of `jsonl`.

| tool | shape |
|---|---|
| Hugging Face | `tokens` and names or ids of tags in `ner_tags`, `tags`, `labels` |
| GLiNER | `tokenized_text` and `ner`: first token, last token and label |
| doccano | `label`: start, end, label; `entities`, `annotations`: objects with `start_offset` |
| spaCy | `entities`: start, end and label; or `ents`: objects; `Doc.to_json` has `spans` by key |
| Label Studio's JSON-MIN | `label`: objects with `labels` |

A tag may be `B-PER`, in any case; `B`, whose entity has the label ENTITY; or `PER` alone. Missing
tags are null, -100, `_`, `-` or empty.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from bcrf.io.json_objects import Problem
from bcrf.schemes import read_spans

_NAMES = (
    *("spans", "ner_tags", "tags", "entities", "ents", "label", "labels", "span", "annotations"),
    "ner",
)
_READ = ("spans", "rejected", "tokens", "tokenized_text", "annotated_labels", "meta")
_BESIDE = (
    *("relations", "events", "clusters", "sents", "chunk_tags", "pos_tags", "options"),
    *("Comments", "comments", "metadata", "_"),
)
"""Fields that are no entities if a record has entities under another name."""
_NAMES_OF_FIELDS = {"start_offset": "start", "end_offset": "end", "labels": "label"}
_TAG = re.compile(r"[BILUES]-.+|[BILUEO]", re.IGNORECASE)
_PREFIXED = re.compile(r"[BILUES]-.", re.IGNORECASE)
_BARE = re.compile(r"[BILUESO]", re.IGNORECASE)
_MISSING = ("", "-", "_", None, -100)


def translate_spans(
    fields: dict[str, Any], tags: Sequence[str] = (), spans_key: str | None = None
) -> list[Any] | None:
    """Return the spans of an object, None if it has none under any name, see `jsonl.read_record`.

    A missing tag gives a span `{"missing": i}`. Problem if the object has spans under several
    names, lists that may be annotation under other names, or tags that are no tags of entities.
    """
    groups = fields.get("spans")
    if isinstance(groups, dict) and (groups or "ents" in fields):
        _check_unread(fields, (*_READ, *_BESIDE, "ents"))
        if spans_key in groups:
            return [*groups[spans_key]]
        if spans_key or (groups and not fields.get("ents")):
            raise Problem(
                "span groups", f"has the span groups {', '.join(groups)}; see `convert --spans-key`"
            )
        return [*map(_read_span, fields.get("ents") or ())]
    if not isinstance(groups, list | None):
        raise Problem("wrong type", f'"spans" must be a list, got {json.dumps(groups)[:60]}')
    found = [name for name in _NAMES if isinstance(fields.get(name), list)]
    if len(found) > 1:
        raise Problem("several annotations", f"found {' and '.join(found)}; expected one of them")
    _check_unread(fields, (*_READ, *_BESIDE, *found) if found else _READ)
    if not found:
        return None
    name, values = found[0], fields[found[0]]
    if name == "spans":
        return values
    if "tokenized_text" in fields:
        return [_read_span(item, "token_start", "token_end") for item in values]
    are_tags = values and all(value is None or isinstance(value, str | int) for value in values)
    if name == "ner_tags" or are_tags:
        return _read_tags(name, values, fields.get("tokens"), tags)
    return [*map(_read_span, values)]


def count_spans(fields: dict[str, Any], tags: Sequence[str] = ()) -> int:
    """Count the spans of an object of any shape; 0 for what cannot be read."""
    try:
        found = translate_spans(fields, tags) or ()
    except (Problem, TypeError):
        return 0
    return sum(not is_missing(span) for span in found)


def is_missing(span: Any) -> bool:
    """Return whether a span of `translate_spans` is a missing tag."""
    return isinstance(span, dict) and span.keys() == {"missing"}


def find_unread(fields: dict[str, Any]) -> list[str]:
    """Return the names of the lists that `translate_spans` does not read of a valid object."""
    read = _READ if isinstance(fields.get("spans"), list) else (*_READ, *_NAMES)
    return [
        key
        for key, value in fields.items()
        if key not in read and ((value and isinstance(value, list)) or _may_be_spans(value))
    ]


def _check_unread(fields: dict[str, Any], known: Sequence[str]) -> None:
    """Raise Problem for a field without a known name that may have spans."""
    unread = [key for key, value in fields.items() if key not in known and _may_be_spans(value)]
    if unread:
        raise Problem(
            "unread list",
            f"the list {json.dumps(unread[0])} is not read; expected annotation as one of "
            f"{', '.join(_NAMES)}, and nowhere else",
        )


def _may_be_spans(value: Any) -> bool:
    """Return whether a value has objects, lists or entity tags."""
    if isinstance(value, dict):  # Label Studio's JSON-MIN has several labels of a text as choices
        return any(
            isinstance(inner, list) and inner for key, inner in value.items() if key != "choices"
        )
    if not isinstance(value, list) or not value:
        return False
    are_tags = all(isinstance(item, str) and _TAG.fullmatch(item) for item in value)
    return are_tags or any(isinstance(item, dict | list) for item in value)


def _read_tags(name: str, tags: list[Any], tokens: Any, names: Sequence[str]) -> list[Any]:
    if not isinstance(tokens, list) or len(tokens) != len(tags):
        n_tokens = f"{len(tokens)} tokens" if isinstance(tokens, list) else 'no list "tokens"'
        raise Problem("wrong type", f'"{name}" has {len(tags)} tags, but there are {n_tokens}')
    read = [_read_tag(name, tag, names) for tag in tags]
    try:
        spans = read_spans(normalize_tags(read))
    except ValueError as error:
        raise Problem("no tag", f'"{name}", {error}') from None
    missing = [{"missing": i} for i, tag in enumerate(read) if tag is None]
    return missing + [
        {"token_start": start, "token_end": end - 1, "label": label} for start, end, label in spans
    ]


def normalize_tags(
    tags: Sequence[str | None], known: Collection[str | None] = ()
) -> list[str | None]:
    """Return tags with a prefix in upper case and a label: `b-per`, bare `B`, and `PER` alone.

    known: other tags of the file. If one of all tags has a prefix, the others need one.
    """
    found = {tag for tag in tags if tag}
    all_tags = found | {tag for tag in known if tag and tag not in _MISSING}
    if any(map(_PREFIXED.match, all_tags)):
        fixed = {tag: tag[0].upper() + tag[1:] for tag in found if _TAG.fullmatch(tag)}
    elif all(map(_BARE.fullmatch, all_tags)):
        fixed = {tag: f"{tag.upper()}-ENTITY" for tag in found}
    else:
        fixed = {tag: f"I-{tag}" for tag in found if tag[1:2] != "-" and tag[-1] != "-"}
    fixed.update(dict.fromkeys(("O", "o"), "O"))
    return [tag and fixed.get(tag, tag) for tag in tags]


def _read_tag(name: str, tag: Any, names: Sequence[str]) -> str | None:
    if isinstance(tag, bool) or not isinstance(tag, str | int | None):
        raise Problem(
            "wrong type", f'each of "{name}" must be a tag or its id, got {json.dumps(tag)[:60]}'
        )
    if tag in _MISSING:
        return None
    if isinstance(tag, str):
        return tag
    if not names:
        raise Problem(
            "ids without names",
            f'"{name}" has the id {tag}; expected `convert --labels` with all tags in the order of '
            "their ids, such as O,B-PER,I-PER, or a file of them",
        )
    if not 0 <= tag < len(names):
        raise Problem(
            "unknown label",
            f'"{name}" has the id {tag}, but `convert --labels` has {len(names)} tags',
        )
    return names[tag]


def _read_span(item: Any, start: str = "start", end: str = "end") -> Any:
    if isinstance(item, list) and len(item) == 3:
        return dict(zip((start, end, "label"), item, strict=True))
    if isinstance(item, dict):
        return {_NAMES_OF_FIELDS.get(key, key): value for key, value in item.items()}
    return item  # `jsonl` names the problem
