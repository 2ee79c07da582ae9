"""Format and columns of a file, by the content of its first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bcrf.io.text import scan_lines

from .formats.columns import find_separator, is_row, split_row

N_LINES = 2000
"""Lines that are read of a file."""
MOST_BAD = 0.1
"""Largest share of malformed rows and tags."""

CHUNKS = {
    *("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"),
    *("NC", "VC", "PC", "AC"),
}
"""Labels of chunks: of CoNLL-2000 and CoNLL-2003, English and German."""

_TAG = re.compile(r"O|[_-]?|[BILUES]-\S+")
_LABEL = re.compile(r"[BILUES]-(\S+)")
# A record, or a list of records. A word of a column may be a bracket.
_JSON = re.compile(r"\[?\s*\{\s*(?:[\"}]|$)|\[\s*(?:\]|$)")
_CONLLU_ID = re.compile(r"[1-9]\d*([-.][1-9]\d*)?")


class Columns(NamedTuple):
    """Numbers of the columns of word and entity tags, from 1, or from the end as -1.

    entities: several if entities overlap, the outer ones first.
    """

    word: int = 1
    entities: tuple[int, ...] = (-1,)


def recognize_format(path: Path) -> str | None:
    """Return "json", "conllu" or "columns", or None if the content is none of them."""
    lines = [line.text for line in islice(scan_lines(path), N_LINES)]
    first = next((text.strip() for text in lines if text.strip()), "")
    if _JSON.match(first):
        return "json"
    rows = _read_rows(path)
    if rows and all(len(row) == 10 and _CONLLU_ID.fullmatch(row[0]) for row in rows):
        return "conllu"
    return "columns" if rows and len(rows[0]) > 1 else None


def guess_columns(path: Path) -> Columns:
    """Return the columns of a file, by default the first and the last.

    The entity tags are all columns of tags such as O and B-PER, as in GENIA and GermEval, but the
    chunks of CoNLL-2003; only chunks are the last column. Columns of nothing but O come last: their
    entities may follow. If the first column has numbers, entity tags or few different values, the
    word is the column with the most values.
    """
    rows = _read_rows(path)
    columns = [*zip(*rows, strict=True)]
    labels = {i: _find_labels(column) for i, column in enumerate(columns) if _are_tags(column)}
    tags = [i for i, found in labels.items() if found]
    if not tags:
        return Columns()
    n_values = {
        i: len(set(column))
        for i, column in enumerate(columns)
        if i not in tags and not all(value.isdecimal() or value in "_-" for value in column)
    }
    if not n_values:
        return Columns()
    word = max(n_values, key=lambda i: n_values[i])
    if 2 * n_values.get(0, 0) >= n_values[word]:
        word = 0
    empty = [i for i, column in enumerate(columns) if set(column) == {"O"}]
    layers = [i for i in tags if not labels[i] <= CHUNKS] + empty or tags[-1:]
    return Columns(word + 1, tuple(-1 if i == len(columns) - 1 else i + 1 for i in layers))


def _are_tags(column: Sequence[str]) -> bool:
    n_tags = sum(_TAG.fullmatch(value) is not None for value in column)
    return n_tags >= (1 - MOST_BAD) * len(column)


def _find_labels(column: Sequence[str]) -> set[str]:
    return {match[1] for match in map(_LABEL.fullmatch, column) if match}


def _read_rows(path: Path) -> list[list[str]]:
    """Return the rows with the most frequent number of columns, none if too many have another."""
    lines = iter([line for line in islice(scan_lines(path), N_LINES) if line.problem is None])
    tabs, head = find_separator(lines)
    rows = [split_row(line, tabs) for line in (*head, *lines) if is_row(line, tabs)]
    if not rows:
        return []
    (width, n), *_ = Counter(map(len, rows)).most_common()
    # GermEval's "#<tab>source" before a sentence has fewer columns.
    n_bad = sum(len(row) != width and row[0] != "#" for row in rows)
    return [row for row in rows if len(row) == width] if n_bad <= MOST_BAD * (n + n_bad) else []
