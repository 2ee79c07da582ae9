"""JSON lines: texts and their entity annotation, one object per line.

- `text`, or `tokens` (strings, or objects with a `text`), or both.
- `spans`: objects with `start` and `end` (exclusive) in characters, or in tokens without a text.
  Alternatively `token_start` and `token_end` (inclusive) in tokens, as in Prodigy. `label`
  is the entity's label, a list of its possible labels, or null for an entity of any label. If a
  span has a `text`, it must be the same as in the record's text.
- `rejected`: spans that are no entity of their label. A list excludes all its labels, null any.
- `annotated_labels`: the labels that the annotator annotated, by default all.
- `complete`: true if tokens outside of all spans are O, false if they are missing. By default true
  for a record with `spans`, also with an empty list, and false for one without.

A record without `spans` may have them under another tool's name, see `other_spans`. A list that may
be annotation under another name is a problem. `convert` ignores all other fields, and counts the
lists among them. The readers of other tools translate their fields to these.
"""

import json
from collections.abc import Sequence
from typing import Any

from bcrf.io.json_objects import Problem
from bcrf.lazy import lazy
from spacy_bcrf.corpora.record import Record, RecordSpan

from . import other_spans


def read_record(
    fields: dict[str, Any],
    place: str,
    known_labels: frozenset[str] | None = None,
    tags: Sequence[str] = (),
    spans_key: str | None = None,
) -> Record:
    """Read one object. Problem if it is wrong. place: file and line. known_labels: None for any.

    tags: names of the `ner_tags` by id. spans_key: the group of `Doc.to_json`.
    """
    # A span that an annotator rejected must not become an entity.
    if "answer" in fields:
        raise Problem(
            "another tool",
            '"answer" is a field of Prodigy, but the first record of the file has none; expected '
            "one file for each tool",
        )
    text, words = _read_text(fields)
    found = other_spans.translate_spans(fields, tags, spans_key)
    spans = found and [span for span in found if not other_spans.is_missing(span)]
    reader = _SpanReader(text, words, known_labels)
    labels = _list(fields, "annotated_labels")
    # A text of Label Studio's JSON-MIN has no label, but is annotated.
    complete = fields.get("complete", found is not None or "annotation_id" in fields)
    if not isinstance(complete, bool):
        raise Problem("wrong type", f'"complete" must be true or false, got {_show(complete)}')
    missing = [reader.bounds(span["missing"]) for span in found or () if span not in (spans or ())]
    if words is not None and len(missing) == len(words):
        missing, complete = [], False
    return Record(
        [place],
        text,
        words,
        [reader.read(span, "span") for span in spans or ()],
        [reader.read(span, "rejected span") for span in _list(fields, "rejected") or ()],
        labels and [reader.check_label(label, '"annotated_labels"') for label in labels],
        complete,
        missing,
    )


def count_spans(fields: dict[str, Any], tags: Sequence[str] = ()) -> int:
    """Count the spans of an object, valid or not."""
    rejected = fields.get("rejected")
    n_rejected = len(rejected) if isinstance(rejected, list) else 0
    return n_rejected + other_spans.count_spans(fields, tags)


def _read_text(fields: dict[str, Any]) -> tuple[str | None, list[str] | None]:
    tokens = _list(fields, "tokenized_text" if "tokenized_text" in fields else "tokens")
    text = fields.get("text")
    if text is None and tokens is None:
        null = " (it is null)" if "text" in fields else ""
        raise Problem("no text", f'no "text"{null} and no "tokens"; expected "text" with a string')
    if text is not None:
        text = _check_string(text, '"text"')
    if tokens is None:
        return text, None
    words = [_check_string(_read_word(token, text), 'each of "tokens"') for token in tokens]
    if not words:
        raise Problem("empty", '"tokens" is empty')
    return text, words


def _read_word(token: Any, text: str | None) -> Any:
    """Return the word of a token, which `Doc.to_json` gives by its characters."""
    if not isinstance(token, dict):
        return token
    start, end = token.get("start"), token.get("end")
    if "text" not in token and text and isinstance(start, int) and isinstance(end, int):
        return text[start:end]
    return token.get("text")


class _SpanReader:
    def __init__(
        self, text: str | None, words: Sequence[str] | None, known_labels: frozenset[str] | None
    ) -> None:
        self.text, self.words, self.known_labels = text, words, known_labels

    def read(self, span: Any, what: str) -> RecordSpan:
        if not isinstance(span, dict):
            raise Problem("wrong type", f"a {what} must be an object, got {_show(span)}")
        if "label" not in span:
            raise Problem(
                "wrong type", f"{what} {_show(span)} has no label; expected one, or null for any"
            )
        by_token = self.words is not None and "start" not in span and "token_start" in span
        start, end = self._find_bounds(span, what, by_token)
        in_tokens = by_token or self.text is None
        content: Sequence[str] = (self.words if in_tokens else self.text) or ()
        unit = "tokens" if in_tokens else "characters"
        if not 0 <= start < end <= len(content):
            raise Problem(
                "outside the text",
                f"{what} {start}:{end} {_show(span['label'])} is not in the text, which has "
                f"{len(content):,} {unit}; expected 0 <= start < end <= {len(content)}: "
                f"{_show(span)}",
            )
        if self.text is not None:
            if in_tokens:
                start, end = self._words_in_text[start][0], self._words_in_text[end - 1][1]
            # Without white space, because tools change it.
            own, content = span.get("text"), self.text[start:end]
            if isinstance(own, str) and _squeeze(own) != _squeeze(content):
                raise Problem(
                    "another text",
                    f'{what} {start}:{end} is {content[:60]!r}, but its "text" is {own[:60]!r}',
                )
        label = span["label"]
        if isinstance(label, list) and not label:
            raise Problem(
                "wrong type", f"{what} {start}:{end} has no labels; expected some, or null for any"
            )
        labels = label if isinstance(label, list) else [] if label is None else [label]
        where = f"the label of the {what} {start}:{end}"
        names = {self.check_label(name, where) for name in labels}
        return RecordSpan(start, end, tuple(sorted(names)))

    def bounds(self, i: int) -> tuple[int, int]:
        """Return the bounds of a token, in the unit of the spans."""
        return (i, i + 1) if self.text is None else self._words_in_text[i]

    def check_label(self, label: Any, where: str) -> str:
        if isinstance(label, int) and where != '"annotated_labels"':
            raise Problem("label ids", f"{where} is the id {label}; export the names of labels")
        name = _check_string(label, where)
        if name == "O":
            raise Problem("unknown label", f"{where} is O, which is no label of an entity")
        if self.known_labels is not None and name not in self.known_labels:
            expected = ", ".join(sorted(self.known_labels))
            raise Problem("unknown label", f"{where}: unknown {name!r}; expected one of {expected}")
        return name

    @lazy
    def _words_in_text(self) -> list[tuple[int, int]]:
        """Bounds of the tokens in characters, an empty range for a token of white space."""
        assert self.text is not None and self.words is not None
        bounds, end = [], 0
        for word in self.words:
            start = end if word.isspace() else self.text.find(word, end)
            if start < 0 or self.text[end:start].strip():
                found = self.text[end : end + len(word) + 10]
                raise Problem(
                    "not tokenized", f"token {word!r} is not next in the text, which has {found!r}"
                )
            end = start if word.isspace() else start + len(word)
            bounds.append((start, end))
        return bounds

    def _find_bounds(self, span: dict[str, Any], what: str, by_token: bool) -> tuple[int, int]:
        keys = ("token_start", "token_end") if by_token else ("start", "end")
        for key in keys:
            bound = span.get(key)
            if not isinstance(bound, int) or isinstance(bound, bool):
                raise Problem(
                    "wrong type",
                    f'"{key}" of a {what} must be an integer, got {_show(bound)}: {_show(span)}',
                )
        return span[keys[0]], span[keys[1]] + by_token


def _squeeze(text: str) -> str:
    # Label Studio escapes line breaks.
    return "".join(text.replace("\\n", "\n").split())


def _list(fields: dict[str, Any], key: str) -> list[Any] | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, list):
        raise Problem("wrong type", f'"{key}" must be a list, got {_show(value)}')
    return value


def _check_string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise Problem("wrong type", f"{what} must be a string, got {_show(value)}")
    if not value:
        raise Problem("empty", f"{what} is empty")
    try:
        value.encode("utf8")
    except UnicodeEncodeError as error:
        raise Problem(
            "wrong type",
            f"{what} has half a surrogate pair at character {error.start}; expected both halves "
            "of the character, or U+FFFD in place of it",
        ) from None
    return value


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
