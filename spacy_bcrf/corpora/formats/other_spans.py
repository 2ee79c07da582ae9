"""Annotation under the names and in the shapes of other tools, as the `spans` of `jsonl`.

| tool | shape |
|---|---|
| Hugging Face | `tokens` and names or ids of tags in `ner_tags`, `tags`, `labels` |
| GLiNER, DyGIE | `tokenized_text` or `tokens`, and `ner`: first token, last token and label |
| doccano | `label`: start, end, label; `entities`, `annotations`: objects with `start_offset` |
| spaCy | `entities`: start, end and label; or `ents`: objects; `Doc.to_json` has `spans` by key |
| Label Studio's JSON-MIN | `label`: objects with `labels` |
| Presidio | `full_text` and `spans`: objects with `entity_type` and `start_position` |
| CLUENER | `label`: the places of each surface of each label; the end is inclusive |
| BigBio | `entities`: objects with `offsets` |
| ai4privacy | `source_text` and `privacy_mask`: objects |
| Parquet | an object of lists of starts, ends and labels |

A tag may have any form of `tag_forms`. Missing tags are null, -100, `_`, `-` or empty. Values may
be texts of JSON or Python. Annotation in no known shape is a problem that names the field.
"""

import json
import re
from ast import literal_eval
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bcrf.io.json_objects import Problem
from bcrf.schemes import read_spans
from spacy_bcrf.annotation.tag_forms import MISSING, STANDARD, TagForm, are_tags, find_form

_NAMES = (
    *("spans", "ner_tags", "tags", "entities", "ents", "label", "labels", "span", "annotations"),
    *("ner", "annotation", "privacy_mask"),
)
_READ = ("id", "text", "tokens", "tokenized_text", "spans", "rejected", "annotated_labels")
_FREE = ("meta", "metadata")
"""Fields that may have any content except spans."""
_BESIDE = (
    *("relations", "events", "clusters", "sents", "chunk_tags", "pos_tags", "options"),
    *("Comments", "comments", "_"),
)
"""Fields that are no entities if a record has entities under another name."""
_OURS = {
    "start": ("start_offset", "start_position", "startOffset", "start_char", "begin"),
    "end": ("end_offset", "end_position", "endOffset", "end_char"),
    "label": ("labels", "entity_type", "entityLabel", "entity_group", "type", "category", "tag"),
    "text": ("entity_value",),
}
"""Our names of a span's fields, and the names of other tools."""
_PAIRS = ("offsets", "span", "location")
"""Names of a pair of start and end, also in a list of its own, as in BigBio."""
_PRINTED = re.compile(r"""\[\s*(?:'[^']*'|"[^"]*")(?:\s+(?:'[^']*'|"[^"]*"))+\s*\]""")
"""An array of strings as NumPy prints it, without commas. Python reads it as one string."""
_LIKE_TAGS = re.compile("tag|label|ner|ents?$|entit|iob|bio|annot", re.IGNORECASE)


class TagNames(NamedTuple):
    """How tags are read. by_id: names, empty if unknown. form: None for that of each record.

    label_form: form of the labels of spans if they are tags, which is a problem.
    """

    by_id: Sequence[str] = ()
    form: TagForm | None = None
    label_form: TagForm | None = None


def translate_spans(
    fields: dict[str, Any], tags: TagNames, spans_key: str | None = None
) -> list[Any] | None:
    """Return the spans of an object, None if it has none under any name, see `jsonl.read_record`.

    A missing tag gives a span `{"missing": i}`. Problem if the object has spans under several
    names, values that may be annotation in other shapes, or tags that are no tags of entities.
    """
    groups = fields.get("spans")
    if isinstance(groups, dict) and (groups or "ents" in fields) and not _is_of_lists(groups):
        _check_unread(fields, (*_READ, *_BESIDE, "ents"))
        if isinstance(groups.get(spans_key or ""), list):
            return [*groups[spans_key or ""]]
        if spans_key or (groups and not fields.get("ents")):
            raise Problem(
                "span groups", f"has the span groups {', '.join(groups)}; see `convert --spans-key`"
            )
        return [*map(_read_span, fields.get("ents") or ())]
    found = {name: value for name, value in _find_values(fields) if isinstance(value, list)}
    if groups is not None and "spans" not in found:
        raise Problem("wrong type", f'"spans" must be a list, got {_show(groups)}')
    if len(found) > 1:
        raise Problem("several annotations", f"found {' and '.join(found)}; expected one of them")
    if not found:
        _check_unread(fields, _READ)
        return None
    _check_unread(fields, (*_READ, *_BESIDE, *found))
    ((name, values),) = found.items()
    if name == "ner_tags" or (name != "spans" and _may_be_tags(values)):
        return _read_tags(name, values, fields.get("tokens"), tags)
    by_token = "tokenized_text" in fields or (name == "ner" and fields.get("text") is None)
    keys = ("token_start", "token_end") if by_token else ("start", "end")
    return [_read_span(item, *keys) for item in values]


def find_tags(fields: dict[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Yield the tags of an object in any valid shape. names: of tags by id."""
    for name, value in _find_values(fields):
        if isinstance(value, list) and _may_be_tags(value):
            yield from (tag for x in value if (tag := _read_tag(name, x, names)) is not None)


def find_labels(fields: dict[str, Any]) -> Iterator[str]:
    """Yield the labels of the spans of an object in any valid shape."""
    for _, value in _find_values(fields):
        spans = map(_read_span, value if isinstance(value, list) else ())
        labels = (span.get("label") for span in spans if isinstance(span, dict))
        yield from (label for label in labels if isinstance(label, str))


def count_other_spans(fields: dict[str, Any], tags: TagNames) -> int | None:
    """Count the spans of an object of any shape; None for what cannot be read."""
    try:
        found = translate_spans(fields, tags) or ()
    except (Problem, TypeError):
        return None
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
        if key not in (*read, "meta")
        and ((value and isinstance(value, list)) or _find_hidden(key, value))
    ]


def _find_values(fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of known names: lists in all shapes that can be read."""
    text, tokens = fields.get("text"), fields.get("tokens")
    for name in _NAMES:
        value = fields.get(name)
        if isinstance(value, str):
            value = parse_value(value, len(tokens) if isinstance(tokens, list) else 0)
        if isinstance(value, dict) and (value or name != "spans"):
            value = _read_object(name, value, text)
        if value is not None:
            yield name, value


def parse_value(text: str, n_tokens: int = 0) -> Any:
    """Return a list or an object that is written as text, or the tags of the tokens."""
    text = text.strip()
    if text[:1] in ("[", "{") and text[-1:] in ("]", "}") and not _PRINTED.fullmatch(text):
        for parse in (json.loads, literal_eval):
            try:
                # Python's tuples are lists in JSON.
                return json.loads(json.dumps(parse(text)))
            except (TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
                continue
    words = _split(text)
    return words if words and len(words) == n_tokens and are_tags(words) else text or None


def _split(text: str) -> list[str]:
    return re.findall(r"[^\s,;|]+", text)


def _is_of_lists(value: dict[str, Any]) -> bool:
    """Return whether an object has lists of starts and ends, as in Parquet."""
    names = {_our_name(key) for key in value}
    return {"start", "end"} <= names and all(isinstance(each, list) for each in value.values())


def _read_object(name: str, value: dict[str, Any], text: Any) -> Any:
    """Return the spans of an object of lists, of objects, or of labels; or the object."""
    inner = [*value.values()]
    if _is_of_lists(value):
        lengths = set(map(len, inner))
        if len(lengths) > 1:
            raise Problem("wrong type", f'"{name}" has lists of different lengths')
        return [dict(zip(value, row, strict=True)) for row in zip(*inner, strict=True)]
    if all(isinstance(each, dict) and "start" in _rename(each) for each in inner):
        return inner
    if all(isinstance(each, dict) for each in inner) and isinstance(text, str):
        return [
            _read_place(text, surface, place, label, name)
            for label, places in value.items()
            for surface, found in places.items()
            for place in (found if isinstance(found, list) else [found])
        ]
    if all(_are_span_objects(each) for each in inner):
        return [{"label": label, **span} for label, spans in value.items() for span in spans]
    return value


def _read_place(text: str, surface: str, place: Any, label: str, name: str) -> dict[str, Any]:
    """Return a span of CLUENER, whose end is inclusive. Problem if its text is another one."""
    is_pair = isinstance(place, list) and len(place) == 2 and all(type(x) is int for x in place)
    start, last = place if is_pair else (0, 0)
    for end in (last + 1, last):
        if is_pair and text[start:end] == surface:
            return {"start": start, "end": end, "label": label, "text": surface}
    raise Problem(
        "another text", f'"{name}.{label}": {_show(surface)} is not at {_show(place)} in the text'
    )


def _check_unread(fields: dict[str, Any], known: Sequence[str]) -> None:
    """Raise Problem for a value that may be annotation, except of known names."""
    is_alone = known is _READ
    for key, value in fields.items():
        if key in known or (value is None or value == ""):
            continue
        if key in _FREE:
            hidden = key if is_alone and _has_spans(value) else None
        elif is_alone and key in _NAMES:
            hidden = key
        elif is_alone and key == "choices":
            hidden = None
        else:
            hidden = _find_hidden(key, value)
            is_list = isinstance(value, list) and bool(value)
            if hidden is None and is_alone and is_list and _LIKE_TAGS.search(key):
                hidden = key
        if hidden is not None:
            raise Problem(
                "unread annotation",
                f"{json.dumps(hidden)} is not read, {_show(value)}; expected annotation as a list "
                f"in one of {', '.join(_NAMES)}, and nowhere else",
            )


def _find_hidden(key: str, value: Any) -> str | None:
    """Return the path of objects, lists or entity tags in a value, None without any."""
    if isinstance(value, str):
        parsed, words = parse_value(value), _split(value) if "O" in value else []
        if "O" in words and are_tags(words):
            return key
        return None if isinstance(parsed, str | None) else _find_hidden(key, parsed)
    if isinstance(value, list):
        has_objects = any(isinstance(item, dict | list) for item in value)
        return key if has_objects or are_tags(value) or _are_bare(value) else None
    if not isinstance(value, dict):
        return None
    if _is_span(value):
        return key
    for name, inner in value.items():
        # Label Studio's JSON-MIN has several labels of a text as choices.
        if name == "choices":
            continue
        if isinstance(inner, list) and inner:
            return key
        if (hidden := _find_hidden(f"{key}.{name}", inner)) is not None:
            return hidden
    return None


def _are_bare(values: list[Any]) -> bool:
    tags = [value for value in values if isinstance(value, str) and re.fullmatch("[BILUEO]", value)]
    return bool(values) and len(tags) == len(values)


def _has_spans(value: Any) -> bool:
    """Return whether a value of any content has spans."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return _is_span(value) or any(map(_has_spans, inner))


def _are_span_objects(value: Any) -> bool:
    is_list = isinstance(value, list)
    return is_list and all(isinstance(item, dict) and _is_span(item) for item in value)


def _is_span(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) == 3 and sorted(map(type, value), key=str) == [int, int, str]
    found = _rename(value) if isinstance(value, dict) else {}
    return all(type(found.get(key)) is int for key in ("start", "end"))


def _may_be_tags(values: list[Any]) -> bool:
    return bool(values) and all(value is None or isinstance(value, str | int) for value in values)


def _read_tags(name: str, values: list[Any], tokens: Any, tags: TagNames) -> list[Any]:
    if not isinstance(tokens, list) or len(tokens) != len(values):
        n_tokens = f"{len(tokens)} tokens" if isinstance(tokens, list) else 'no list "tokens"'
        raise Problem("wrong type", f'"{name}" has {len(values)} tags, but there are {n_tokens}')
    read = [_read_tag(name, value, tags.by_id) for value in values]
    normalize = (tags.form or find_form(read) or STANDARD).normalize
    try:
        spans = read_spans([*map(normalize, read)])
    except ValueError as error:
        raise Problem("no tag", f'"{name}", {error}') from None
    missing = [{"missing": i} for i, tag in enumerate(read) if tag is None]
    return missing + [
        {"token_start": start, "token_end": end - 1, "label": label} for start, end, label in spans
    ]


def _read_tag(name: str, tag: Any, names: Sequence[str]) -> str | None:
    if isinstance(tag, bool) or not isinstance(tag, str | int | None):
        raise Problem(
            "wrong type", f'each of "{name}" must be a tag or its id, got {json.dumps(tag)[:60]}'
        )
    if tag is None or tag in MISSING:
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
        item = [*item[1:], item[0]] if isinstance(item[0], str) else item  # Rubrix's
        return dict(zip((start, end, "label"), item, strict=True))
    return _rename(item) if isinstance(item, dict) else item  # `jsonl` names the problem


def _rename(span: dict[str, Any]) -> dict[str, Any]:
    """Return a span with our names, if each of them is there once."""
    renamed = dict(span)
    for ours, others in _OURS.items():
        found = [name for name in others if name in span]
        if ours not in span and len(found) == 1:
            renamed[ours] = renamed.pop(found[0])
    pairs = [span[name] for name in _PAIRS if isinstance(span.get(name), list)]
    if "start" not in renamed and len(pairs) == 1:
        pair = pairs[0][0] if len(pairs[0]) == 1 else pairs[0]
        if isinstance(pair, list) and len(pair) == 2 and all(type(x) is int for x in pair):
            renamed["start"], renamed["end"] = pair
            if isinstance(renamed.get("text"), list):  # of each pair
                renamed["text"] = "".join(renamed["text"])
    return renamed


def _our_name(name: str) -> str:
    return next((ours for ours, others in _OURS.items() if name in others), name)


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]
