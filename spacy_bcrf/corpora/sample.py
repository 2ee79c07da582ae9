"""The first lines of a file, by which its format and its columns are recognized."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from bcrf.io.json_objects import read_objects
from bcrf.io.text import CorpusError, Line, scan_lines
from bcrf.lazy import lazy
from spacy_bcrf.annotation.tag_forms import MISSING

N_LINES = 2000
"""Number of lines in a sample."""
N_BYTES = 8 << 20
"""About the most bytes of a sample of JSON objects."""
MOST_BAD = 0.1
"""Largest share of malformed rows and tags."""

# `-DOCSTART-` of CoNLL-2003, `###MEDLINE:` of the original JNLPBA files, `# newdoc` of CoNLL-U.
DOCUMENT = re.compile(r" *-DOCSTART-(?=[ \t]|$)|###MEDLINE:|# +newdoc\b")
# All other lines with a number sign may be words.
_COMMENT = re.compile(r"# +(?:newpar\b|[\w.:-]+(?: id)? = |id \S+[ \t]+domain=)")
_BLANKS = re.compile(r"[ \t]+")
_NAME = re.compile(
    r"(?:words?|tokens?|forms?|text|sentence|sent_?id|id|pos|upos|xpos|lemma|chunk|misc"
    r"|(?:.*[-_ ])?(?:ner?|nel|iob2?|bio|entity|entities|tags?|labels?)(?:[-_ ].*)?)",
    re.IGNORECASE,
)
"""Names of columns in a header."""
_TAG = re.compile(r"[Oo]$|[BILUESMW][-_:/.|].|.+[-_:/.|][BILUESMW]$")


class Sample:
    """The first N_LINES of a file. A pipe, which can be read once, has none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @lazy
    def lines(self) -> list[Line]:
        return list(islice(scan_lines(self.path), N_LINES)) if self.path.is_file() else []

    @lazy
    def first(self) -> str:
        """The first line that is not blank, without white space at its ends."""
        return next((line.text.strip() for line in self.lines if line.text.strip()), "")

    def read_objects(self) -> Iterator[dict[str, Any]]:
        """Yield the first JSON objects. Broken JSON ends them."""
        n_bytes = [0]
        if self.path.is_file():
            with suppress(CorpusError):
                for item in islice(read_objects(self.path, n_bytes.append), N_LINES):
                    if isinstance(item.value, dict):
                        yield item.value
                    if sum(n_bytes) > N_BYTES:
                        return

    @lazy
    def fields(self) -> dict[str, Any]:
        """The first JSON object, empty without one."""
        return next(self.read_objects(), {})

    @property
    def header(self) -> Line | None:
        """The line with the names of columns, such as `word` and `tag`."""
        return self._find_rows[0]

    @property
    def rows(self) -> list[list[str]]:
        """The rows with the most frequent number of columns, none if too many have another."""
        return self._find_rows[1]

    @lazy
    def _find_rows(self) -> tuple[Line | None, list[list[str]]]:
        lines = iter([line for line in self.lines if line.problem is None])
        tabs, head = find_separator(lines)
        found = [(line, split_row(line, tabs)) for line in (*head, *lines) if is_row(line, tabs)]
        header = found.pop(0)[0] if len(found) > 1 and _are_names(found[0][1]) else None
        rows = [row for _, row in found]
        (width, n), *_ = Counter(map(len, rows)).most_common() or [(0, 0)]
        # GermEval's "#<tab>source" before a sentence has fewer columns.
        n_bad = sum(len(row) != width and row[0] != "#" for row in rows)
        is_table = n_bad <= MOST_BAD * (n + n_bad)
        return header, [row for row in rows if len(row) == width] if is_table else []

    def column(self, number: int) -> list[str]:
        """Return the values of a column, from 1 or from the end as -1; none of column 0."""
        rows = self.rows if number else []
        return [row[number - (number > 0)] for row in rows if abs(number) <= len(row)]


def _are_names(row: list[str]) -> bool:
    """Return whether a row has two names of columns or more, and no entity tag."""
    n_names = sum(map(bool, map(_NAME.fullmatch, row)))
    return n_names > 1 and not any(cell in MISSING or _TAG.match(cell) for cell in row)


def is_row(line: Line, tabs: bool) -> bool:
    """Return whether a line is neither blank nor a comment, nor starts a document."""
    text = line.text
    if not text.strip(" \t") or DOCUMENT.match(text):
        return False
    return not (text.startswith("#") and (_COMMENT.match(text) or (tabs and "\t" not in text)))


def split_row(line: Line, tabs: bool) -> list[str]:
    return line.text.split("\t") if tabs else _BLANKS.split(line.text.strip(" \t"))


def find_separator(lines: Iterator[Line]) -> tuple[bool, list[Line]]:
    """Return whether tabs separate the columns, and the lines read so far."""
    head = []
    for line in lines:
        head.append(line)
        if line.text.strip(" \t") and not line.text.lstrip(" ").startswith(("#", "-DOCSTART-")):
            break
    # The word of the first rows may be "#".
    return any("\t" in line.text for line in head if is_row(line, tabs=False)), head
