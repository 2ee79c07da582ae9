"""Texts and words under the names of other tools, as `text` and `tokens` of `jsonl`.

| tool | text or words |
|---|---|
| Presidio | `full_text` |
| ai4privacy | `source_text`; its `target_text` is masked |
| doccano, Flair | `data` |
| UBIAI | `document`; its `tokens` are the entities |
| Hugging Face | `words`, and other lists of words |
| Stanza | `tokens`: objects with the entity tag of each word |
"""

import re
from typing import Any

from bcrf.io.json_objects import Problem
from spacy_bcrf.annotation.tag_forms import are_tags

TEXTS = ("full_text", "source_text", "document", "data", "sentence", "content")
_AGAIN = {
    "full_text": ("spans", ("tags",)),
    "source_text": ("privacy_mask", ("span_labels", "mbert_bio_labels", "mbert_token_classes")),
}
"""Spans beside a text, and fields that have the same entities again."""
_WORDS = ("words", "token", "sentence", "text")
ENTITY = re.compile(
    "ner|ne|iob|bio|label|(ner|iob|bio|entity|ent)_?(tags?|type|label|iob)|(named_?)?entity",
    re.IGNORECASE,
)
"""Names of entity tags in the objects of tokens."""


def rename_texts(fields: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its text, words and tags under our names."""
    has_words = isinstance(fields.get("tokens") or fields.get("tokenized_text"), list)
    if not has_words and (names := [key for key in _WORDS if _are_words(fields.get(key))]):
        fields = _rename(fields, names[0], "tokens")
        has_words = True
    tokens = fields.get("tokens")
    if fields.get("text") is None:
        names = [key for key in TEXTS if isinstance(fields.get(key), str)]
        if isinstance(fields.get("document"), str) and _are_objects(tokens, "start", "end"):
            return _rename(_rename(fields, "document", "text"), "tokens", "spans")
        if names[:1] in (["full_text"], ["source_text"]) or (len(names) == 1 and not has_words):
            fields = _rename(fields, names[0], "text")
        spans, again = _AGAIN.get(names[0] if names else "", ("", ()))
        if spans in fields:
            fields = {key: value for key, value in fields.items() if key not in again}
    if _are_objects(tokens) and not {"spans", "entities", "ents"} & fields.keys():
        assert isinstance(tokens, list)
        keys = dict.fromkeys(key for token in tokens for key in token)
        found = {key: [token.get(key) for token in tokens] for key in keys}
        tags = [key for key in keys if ENTITY.fullmatch(key) or are_tags(_strings(found[key]))]
        if len(tags) > 1:
            raise Problem("several annotations", f"tokens have {' and '.join(tags)}; expected one")
        if tags:
            return {**fields, "ner_tags": found[tags[0]]}
    return fields


def _rename(fields: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {**{key: value for key, value in fields.items() if key != old}, new: fields[old]}


def _strings(values: list[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, str) for x in value)


def _are_objects(value: Any, *keys: str) -> bool:
    """Return whether a value is a list of objects with these keys."""
    is_list = isinstance(value, list)
    return is_list and all(isinstance(x, dict) and set(keys) <= x.keys() for x in value)
