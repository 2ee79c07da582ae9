"""WebAnno TSV 3, the format of WebAnno and INCEpTION: a token with its annotation a line.

    #T_SP=webanno.custom.NamedEntity|value
    #Text=Ada lives in New York
    1-4<TAB>13-16<TAB>New<TAB>LOC[1]<TAB>

`LOC[1]` on several tokens is one entity, `PER|ORG[2]` is two. The reader takes the feature `value`
of the layer of named entities, or of the only layer of spans.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bcrf.io.json_objects import Item, Problem
from bcrf.io.text import CorpusError, Line
from spacy_bcrf.corpora.sentence import align

MARK = "#FORMAT=WebAnno TSV 3"
"""The start of a file."""

_VALUE = re.compile(r"(.*?)(?:\[(\d+)\])?")


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
            text = line.text.partition("=")[2]
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


def _read(rows: list[Line], text: str, column: int) -> Item:
    words: list[str] = []
    found: dict[object, dict[str, Any]] = {}
    for line in rows:
        cells = line.text.split("\t")
        if line.problem or len(cells) <= column or "." in cells[0]:
            found_there = line.problem or repr(line.text[:60])
            message = f"{found_there}; expected a whole token with {column + 1} columns"
            return Item(f"{line.path}:{line.number}", Problem("malformed line", message))
        for value in cells[column].split("|"):
            match = _VALUE.fullmatch(value)
            if match is None or value in ("_", ""):
                continue
            label, number = match.groups()
            i = len(words)
            new = {"token_start": i, "label": None if label == "*" else label}
            found.setdefault((label, number or (i, len(found))), new)["token_end"] = i
        words.append(cells[2])
    fields: dict[str, Any] = {"tokens": words, "spans": [*found.values()]}
    if align(words, text):
        fields["text"] = text
    return Item(f"{rows[0].path}:{rows[0].number}", fields)
