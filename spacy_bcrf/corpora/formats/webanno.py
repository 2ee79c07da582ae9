"""WebAnno TSV 3, the format of WebAnno and INCEpTION: a token with its annotation a line.

    #T_SP=webanno.custom.NamedEntity|value
    #Text=Ada lives in New York
    1-4<TAB>13-16<TAB>New<TAB>LOC[1]<TAB>

`LOC[1]` on several tokens is one entity, `PER|ORG[2]` is two. In labels, a backslash precedes signs
such as `_`. A line `1-4.1` is a part of the token `1-4`. The reader takes the feature `value` of
the layer of named entities, or of the only layer of spans.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bcrf.io.json_objects import Item, Problem
from bcrf.io.text import CorpusError, Line
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.sentence import align
from spacy_bcrf.corpora.tagged_sentences import scan_rows

from . import jsonl

_VALUE = re.compile(r"(.*?)(?:\[(\d+)\])?")
_BETWEEN = re.compile(r"(?<!\\)\|")


def recognize(sample: Sample) -> bool:
    return sample.first.startswith("#FORMAT=WebAnno TSV 3")


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    items = read_sentences(sample.path, scan_rows(sample.path, reading.advance))
    read_one = partial(jsonl.read_record, known_labels=reading.labels)
    return reading.read_items(items, read_one, jsonl.count_spans)


def read_sentences(path: Path, lines: Iterable[Line]) -> Iterator[Item]:
    """Yield sentences for `jsonl.read_record`. CorpusError without a layer of named entities."""
    layers: dict[str, list[str]] = {}
    rows: list[Line] = []
    text = ""
    for line in [*lines, Line(path, 0, "")]:
        if line.text.startswith("#T_"):
            name, *features = line.text.partition("=")[2].split("|")
            layers[f"{line.text[:5]} {name}"] = features
        elif line.text.startswith("#Text="):
            text = line.text.partition("=")[2].strip()
        elif line.text.strip() and not line.text.startswith("#"):
            rows.append(line)
        elif rows:
            yield _read(rows, text, _find_column(path, layers))
            rows, text = [], ""


def _find_column(path: Path, layers: dict[str, list[str]]) -> int:
    """Return the column of the values of named entities."""
    spans = [name for name in layers if name.startswith("#T_SP ")]
    entities = [name for name in spans if "NamedEntity" in name] or spans
    if len(entities) != 1:
        raise CorpusError(f"{path}: {len(entities)} layers of spans; expected one, NamedEntity")
    before = sum(len(layers[name]) for name in [*layers][: [*layers].index(entities[0])])
    features = layers[entities[0]]
    return 3 + before + (features.index("value") if "value" in features else 0)


class _Place(NamedTuple):
    """A token of a sentence, and the characters of a part of it; None for the whole token."""

    token: int
    part: tuple[int, int] | None = None


def _read(rows: list[Line], text: str, column: int) -> Item:
    words: list[str] = []
    offsets = ""
    places: dict[tuple[str, object], list[_Place]] = {}
    for line in rows:
        cells = line.text.split("\t")
        try:
            if line.problem:
                raise ValueError
            value = cells[column]
            if "." in cells[0]:
                place = _Place(len(words) - 1, _find_part(words[-1], offsets, cells))
            else:
                place, offsets = _Place(len(words)), cells[1]
                words.append(cells[2])
        except (ValueError, IndexError):
            found_there = line.problem or repr(line.text[:60])
            message = f"{found_there}; expected a whole token with {column + 1} columns"
            return Item(f"{line.path}:{line.number}", Problem("malformed line", message))
        for one in _BETWEEN.split(value):
            match = _VALUE.fullmatch(one)
            if match is not None and one not in ("_", ""):
                label, number = match.groups()
                places.setdefault((label, number or (place, len(places))), []).append(place)
    fields: dict[str, Any] = {"tokens": words}
    if align(words, text):
        fields["text"] = text
    elif any(place.part for found in places.values() for place in found):
        message = f"#Text={text[:60]!r} does not have the tokens below it in their order"
        return Item(f"{rows[0].path}:{rows[0].number}", Problem("another text", message))
    fields["spans"] = [
        {
            "label": None if label == "*" else re.sub(r"\\(.)", r"\1", label),
            **_find_bounds(found, words, text),
        }
        for (label, _), found in places.items()
    ]
    return Item(f"{rows[0].path}:{rows[0].number}", fields)


def _find_bounds(places: Sequence[_Place], words: Sequence[str], text: str) -> dict[str, int]:
    """Return the bounds of an entity for `jsonl`: tokens, or characters if it has parts."""
    first, last = places[0], places[-1]
    if not any(place.part for place in places):
        return {"token_start": first.token, "token_end": last.token}
    starts, end = [], 0
    for word in words:
        starts.append(text.find(word, end))
        end = starts[-1] + len(word)
    start = starts[first.token] + (first.part[0] if first.part else 0)
    end = starts[last.token] + (last.part[1] if last.part else len(words[last.token]))
    return {"start": start, "end": end}


def _find_part(word: str, offsets: str, cells: Sequence[str]) -> tuple[int, int]:
    """Return the characters of a part of a word. offsets: of the word, in UTF-16 as all."""
    units, begin = word.encode("utf-16-le"), int(offsets.partition("-")[0])
    start, end = (
        len(units[: 2 * (int(x) - begin)].decode("utf-16-le")) for x in cells[1].split("-")
    )
    if word[start:end] != cells[2]:
        raise ValueError("the part is not at its place")
    return start, end
