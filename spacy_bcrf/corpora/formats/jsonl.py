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
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from bcrf.io.json_objects import Item, Problem, as_object, read_objects
from bcrf.lazy import lazy
from spacy_bcrf.annotation.tag_forms import TagForm, find_form, find_form_of_labels
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record, RecordSpan
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.texts import (
    Advance,
    Rejected,
    TextColumns,
    TextItem,
    TextRecord,
    check_id,
    check_meta,
)
from spacy_bcrf.corpora.writer import Row, Task, Writer, dump_meta, write_lines

from . import other_spans
from .other_spans import TagNames
from .other_texts import rename_texts

# A record, or a list of records. A word of a column may be a bracket.
_FIRST = re.compile(r"\[?\s*\{\s*(?:[\"}]|$)|\[\s*(?:\]|$)")


def recognize(sample: Sample) -> bool:
    return _FIRST.match(sample.first) is not None


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    items = _expand(read_objects(sample.path, reading.advance), reading)
    return read_fields(items, sample.path, sample.read_objects(), reading)


def read_fields(
    items: Iterable[Item],
    path: Path,
    first: Iterable[dict[str, Any]],
    reading: Reading,
) -> Iterator[Record]:
    """Yield the records of objects, and count the lists that no reader takes.

    first: objects at the start of the file, whose tags decide about their form.
    """
    values, labels = set[str](), set[str]()
    for fields in first:
        with suppress(Problem, TypeError):
            fields = rename_texts(fields)
            values.update(other_spans.find_tags(fields, reading.tag_names))
            labels.update(other_spans.find_labels(fields))
    form, label_form = find_form(values), find_form_of_labels(labels)
    if form is not None:
        reading.report_form(path, form)
    tags = TagNames(reading.tag_names, form, label_form)

    def read_one(fields: dict[str, Any], place: str) -> Record:
        record = read_record(fields, place, reading.labels, tags, reading.spans_key)
        count_unread(fields, reading)
        return record

    return reading.read_items(items, read_one, lambda fields: count_spans(fields, tags))


def count_unread(fields: dict[str, Any], reading: Reading) -> None:
    unread = other_spans.find_unread(fields)
    reading.counts.others.update(f"lists {json.dumps(key)}" for key in unread)


def _expand(items: Iterable[Item], reading: Reading) -> Iterator[Item]:
    """Yield the texts of ner-annotator's object, in place of the object."""
    for item in items:
        fields = item.value if isinstance(item.value, dict) else {}
        texts = fields.get("annotations")
        if not isinstance(texts, list) or "classes" not in fields or "text" in fields:
            yield item
            continue
        reading.counts.ignored["null"] += texts.count(None)
        yield from (Item(item.place, as_object(text)) for text in texts if text is not None)


def read_record(
    fields: dict[str, Any],
    place: str,
    known_labels: frozenset[str] | None = None,
    tags: TagNames = TagNames(),  # noqa: B008 (immutable)
    spans_key: str | None = None,
) -> Record:
    """Read one object. Problem if it is wrong. place: file and line. known_labels: None for any.

    tags: of `ner_tags`. spans_key: the group of `Doc.to_json`.
    """
    fields = rename_texts(fields)
    # A span that an annotator rejected must not become an entity.
    if "answer" in fields:
        raise Problem(
            "another tool",
            '"answer" is a field of Prodigy. The first record of the file has none; expected '
            "one file for each tool",
        )
    text, words = _read_text(fields)
    found = other_spans.translate_spans(fields, tags, spans_key)
    spans = found and [span for span in found if not other_spans.is_missing(span)]
    reader = _SpanReader(text, words, known_labels, tags.label_form)
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


def count_spans(
    fields: dict[str, Any],
    tags: TagNames = TagNames(),  # noqa: B008 (immutable)
) -> int | None:
    """Count the spans of an object, valid or not. None if they cannot be read."""
    rejected = fields.get("rejected")
    n_rejected = len(rejected) if isinstance(rejected, list) else 0
    try:
        found = other_spans.count_other_spans(rename_texts(fields), tags)
    except Problem:
        found = None
    return (n_rejected or None) if found is None else found + n_rejected


def _read_text(fields: dict[str, Any]) -> tuple[str | None, list[str] | None]:
    tokens = _list(fields, "tokenized_text" if "tokenized_text" in fields else "tokens")
    text = fields.get("text")
    if text is None and tokens is None:
        null = " (it is null)" if "text" in fields else ""
        found = f"; found {json.dumps([*fields])[:60]}" * bool(fields)
        expected = f'expected "text" with a string{found}'
        raise Problem("no text", f'no "text"{null} and no "tokens"; {expected}')
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
        self,
        text: str | None,
        words: Sequence[str] | None,
        known_labels: frozenset[str] | None,
        form: TagForm | None,
    ) -> None:
        self.text, self.words, self.known_labels, self.form = text, words, known_labels, form

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
        if self.form is not None and self.form.split(name)[0]:
            raise Problem("tag", f"{where} is the tag {name}; expected whole entities, and a label")
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


def read_texts(path: Path, columns: TextColumns, advance: Advance) -> Iterator[TextItem]:
    for place, value in read_objects(path, advance):
        if isinstance(value, Problem):
            yield Rejected(place, place, str(value))
        else:
            yield read_text_fields(value, place, columns)


def read_text_fields(fields: dict[str, Any], place: str, columns: TextColumns) -> TextItem:
    """Read the fields of an object. Its tokens are in `tokens`, its meta data in all others."""
    key = fields.pop(columns.id, None)
    if reason := check_id(key, columns.id):
        return Rejected(place, place, reason)
    name = place if key is None else key
    names = (("text", columns.text), ("tokens", "tokens"))
    given = {key: fields.pop(column) for key, column in names if column in fields}
    try:
        record = read_record(given, place)
        return TextRecord(name, place, record.text, record.words, None, *check_meta(fields))
    except Problem as problem:
        empty = None
        if given == {"text": ""}:
            with suppress(Problem):
                empty = TextRecord(name, place, "", None, None, *check_meta(fields))
        return Rejected(name, place, str(problem), empty=empty)


class JsonWriter(Writer):
    """JSON lines with id, text, spans, the optional fields, and meta unless it is empty."""

    def add(self, row: Row) -> None:
        fields: dict[str, Any] = {"id": row.id}
        if row.text is not None:
            fields["text"] = row.text
        for name in ("spans", *self.optional):
            fields[name] = getattr(row.predictions, name)
        line = json.dumps(fields, ensure_ascii=False, allow_nan=False)
        if row.meta:
            line = f'{line[:-1]}, "meta": {dump_meta(row.meta)}}}'
        self.file.write(f"{line}\n".encode())


def write_tasks(tasks: Iterable[Task], file: IO[str], name: str) -> None:
    """Write a line for each task, with its uncertainty, predictions and alternatives."""
    write_lines(
        ({**task.fields, "uncertainty": task.uncertainty, **task.predicted} for task in tasks), file
    )
