"""Format and columns of a file, by the content of its first lines."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bcrf.io.text import scan_lines

from .formats.columns import find_separator, is_row, split_row
from .formats.conllu import UPOS, read_misc
from .formats.webanno import MARK

N_LINES = 2000
"""Lines that are read of a file."""
MOST_BAD = 0.1
"""Largest share of malformed rows and tags."""

CHUNKS = {
    *("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"),
    *("NC", "VC", "PC", "AC"),
}
"""Labels of chunks: of CoNLL-2000 and CoNLL-2003, English and German."""

_TAG = re.compile(r"O|[_-]?|[BILUES]-\S+", re.IGNORECASE)
_LABEL = re.compile(r"[BILUES]-(\S+)", re.IGNORECASE)
_BARE = re.compile(r"[BILUO]|[_-]?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][\w.-]*|[_-]?")
_NUMBER = re.compile(r"\d+(-\d+)?")
_IOB_LINE = re.compile(r"(\S+\|(O|[_-]|[BILUES]-[^\s|]+)( +|$))+", re.IGNORECASE)
MAX_LABELS = 50
"""Largest number of entity labels without a prefix that a column has by its content."""
# A record, or a list of records. A word of a column may be a bracket.
_JSON = re.compile(r"\[?\s*\{\s*(?:[\"}]|$)|\[\s*(?:\]|$)")
_CONLLU_ID = re.compile(r"[1-9]\d*([-.][1-9]\d*)?")


class Columns(NamedTuple):
    """Columns of word and entity tags, from 1, or -1 for the last. Outer entities come first."""

    word: int = 1
    entities: tuple[int, ...] = (-1,)


def recognize_format(path: Path) -> str | None:
    """Return "json", "conllu", "webanno", "iob" or "columns" by the content, None for others."""
    lines = [line.text for line in islice(scan_lines(path), N_LINES)]
    first = next((text.strip() for text in lines if text.strip()), "")
    if _JSON.match(first):
        return "json"
    if first.startswith(MARK):
        return "webanno"
    if _IOB_LINE.fullmatch(first):
        return "iob"
    rows = _read_rows(path)
    if not rows or len(rows[0]) < 2:
        return None
    # CoNLL-X has ten columns too, but other parts of speech.
    is_wide = len(rows[0]) == 10 and all(_CONLLU_ID.fullmatch(row[0]) for row in rows)
    return "conllu" if is_wide and UPOS.issuperset(row[3] for row in rows) else "columns"


def guess_columns(path: Path) -> Columns:
    """Return the columns of a file, by default the first and the last.

    The entity tags are all columns of tags such as O and B-PER, as in GENIA and GermEval, but the
    chunks of CoNLL-2003; only chunks are the last column. Columns of nothing but O come last: their
    entities may follow. If the first column has numbers, entity tags or few different values, the
    word is the column with the most values.
    """
    rows = _read_rows(path)
    columns = [*zip(*rows, strict=True)]
    labels: dict[int, set[str]] = {}
    for i, column in enumerate(columns):
        if sum(map(bool, map(_TAG.fullmatch, column))) >= (1 - MOST_BAD) * len(column):
            labels[i] = {match[1] for match in map(_LABEL.fullmatch, column) if match}
    tags = [i for i, found in labels.items() if found]
    tags = tags or [i for i, column in enumerate(columns) if _have_no_prefix(column)][-1:]
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
    layers = [i for i in tags if not labels.get(i, set()) <= CHUNKS] + empty or tags[-1:]
    return Columns(word + 1, tuple(-1 if i == len(columns) - 1 else i + 1 for i in layers))


def check_ent_columns(path: Path, columns: Sequence[int]) -> None:
    """Raise ValueError for a column without entity tags if another column has some."""
    for column in columns:
        others = guess_columns(path).entities
        own, best = (column_values(path, each) for each in (column, others[0]))
        if 2 * _count_tags(own) < len(own) and not _have_no_prefix(own) and _count_tags(best):
            listed = " and ".join(map(str, others))
            raise ValueError(f"{path}: column {column} has no entity tags, column {listed} has")


def _count_tags(values: Sequence[str]) -> int:
    return sum(map(bool, map(_LABEL.fullmatch, values))) + values.count("O")


def _have_no_prefix(column: Sequence[str]) -> bool:
    """Return whether most values are O, and the others bare B and I, or labels alone."""
    values = Counter(column)
    outside = values["O"] + values["o"]
    is_bare = all(map(_BARE.fullmatch, values)) and len(values) > 1
    are_labels = 1 < len(values) <= MAX_LABELS and all(map(_NAME.fullmatch, values))
    return outside > 0 and (is_bare or (are_labels and 2 * outside >= len(column)))


def column_values(path: Path, column: int) -> list[str]:
    """Return the first values of a column, from 1 or from the end as -1; none of column 0."""
    rows = _read_rows(path) if column else []
    return [row[column - (column > 0)] for row in rows if abs(column) <= len(row)]


def has_words(path: Path, column: int) -> bool:
    """Return whether a column is not all numbers, as of tokens."""
    values = column_values(path, column)
    return len(values) < 2 or not all(map(_NUMBER.fullmatch, values))


def guess_ent_keys(path: Path) -> list[str]:
    """Return the keys of MISC whose values are entity tags; "" for tags without a key."""
    values: dict[str, set[str]] = {}
    for row in _read_rows(path):
        for key, value in read_misc(row[-1]).items() if len(row) == 10 else ():
            values.setdefault(key, set()).add(value)
    tags = {key: found for key, found in values.items() if all(map(_TAG.fullmatch, found))}
    return [key for key, found in tags.items() if any(map(_LABEL.fullmatch, found))]


def is_prose(path: Path) -> bool:
    """Return whether a file of no known format has five words a line, no tabs, and few tags."""
    lines = [line.text for line in islice(scan_lines(path), N_LINES) if line.text.strip()]
    rows = [line.split() for line in lines]
    n_tags = sum(bool(_TAG.fullmatch(row[-1])) for row in rows)
    is_wide = sum(map(len, rows)) >= 5 * len(rows)
    return is_wide and n_tags < MOST_BAD * len(rows) and not any("\t" in line for line in lines)


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
