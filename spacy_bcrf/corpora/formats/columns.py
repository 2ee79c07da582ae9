"""CoNLL columns: one word a line, its tags in further columns, blank lines between sentences.

CoNLL-2000, CoNLL-2003, WNUT-17, JNLPBA and Universal NER (.iob2) are in this format.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from bcrf.io.text import CorpusError, Line
from spacy_bcrf.corpora.sentence import OnMalformed, Sentence, align, raise_error

# `-DOCSTART-` of CoNLL-2003, `###MEDLINE:` of the original JNLPBA files, `# newdoc` of CoNLL-U.
_DOCUMENT = re.compile(r" *-DOCSTART-(?=[ \t]|$)|###MEDLINE:|# +newdoc\b")
# All other lines with a number sign may be words.
_COMMENT = re.compile(r"# +(?:newpar\b|[\w.:-]+(?: id)? = )")
_TEXT = re.compile(r"# +text = (.*)")

_BLANKS = re.compile(r"[ \t]+")
_MISSING_TAG = ("_", "")
_MISSING_ENTITY = ("_", "-", "")


def read_columns(
    lines: Iterable[Line],
    *,
    word_column: int = 1,
    tag_column: int = 0,
    ent_columns: Sequence[int] = (-1,),
    drop_words: bool = False,
    on_malformed: OnMalformed = raise_error,
) -> Iterator[Sentence]:
    """Yield the sentences of a file of columns.

    word_column, tag_column: columns of the word and the part-of-speech tag (`_` if missing),
        counted from 1, or from the end as -1, -2; 0 for none.
    ent_columns: columns of entity tags (`_` or `-` if missing), a layer each; 0 for none.
    on_malformed: receives the first error of a sentence with a row of other columns, without a word
        or not UTF-8. If it returns, the sentence is skipped.
    drop_words: leave out such a row alone, unless its sentence has no other.

    Tabs separate the columns if the first row has one, else blanks. `-DOCSTART-`, `# newdoc` and
    `###MEDLINE:` start a document. `# key = value` is a comment; in a file with tabs, so is every
    line that starts with `#` and has no tab, or, before a sentence, one tab and too few columns, as
    the sources of GermEval 2014. CorpusError names a malformed line, or the first row
    if it lacks a column.
    """
    lines = iter(lines)
    tabs, head = find_separator(lines)
    n_columns, first_row, word = 0, 0, 0
    tag: int | None = None
    ents: list[int] = []
    columns = word_column, tag_column, ent_columns
    is_short = isinstance(_find_columns(2, *columns), str)
    text: str | None = None
    starts_document = False
    sentence, rows = Sentence(), list[list[str]]()
    error: CorpusError | None = None
    for line in chain(head, lines, [Line(Path(), 0, "")]):
        bad: CorpusError | None = None
        # A comment, or the start of a document, has no words to lose.
        if line.problem is not None and (not line.text or is_row(line, tabs)):
            bad = line.error(line.problem)
            if drop_words:
                sentence.dropped.append(bad)
            else:
                error = error or bad
            continue
        is_source = line.text.startswith("#\t") and line.text.count("\t") == 1
        if (is_source and is_short and not rows) or not is_row(line, tabs):
            if not rows and sentence.dropped:
                error = sentence.dropped[0]
            if error is not None:
                on_malformed(error)
                sentence, rows, text, error = Sentence(), [], None, None
            elif rows:
                _fill(sentence, rows, word, tag, ents)
                sentence.starts_document = starts_document
                if text is not None:
                    sentence.spaces = align(sentence.words, text)
                yield sentence
                sentence, rows, text, starts_document = Sentence(), [], None, False
            starts_document |= _DOCUMENT.match(line.text) is not None
            if match := _TEXT.match(line.text):
                text = match[1].strip()
            continue
        row = split_row(line, tabs)
        if not n_columns:
            n_columns, first_row = len(row), line.number
            found = _find_columns(n_columns, *columns)
            if isinstance(found, str):
                raise line.error(found)
            word, tag, ents = found
        if len(row) != n_columns:
            bad = line.error(
                f"{len(row)} columns; expected {n_columns}, separated by "
                f"{'tabs' if tabs else 'blanks'}, as in line {first_row}"
            )
        elif not row[word].strip(" "):
            bad = line.error(f"empty word; expected one in column {word + 1}")
        if bad is not None:
            if drop_words:
                sentence.dropped.append(bad)
            else:
                error = error or bad
        if bad is not None or error is not None:
            continue
        sentence.lines.append(line)
        rows.append(row)


def _fill(
    sentence: Sentence, rows: list[list[str]], word: int, tag: int | None, ents: list[int]
) -> None:
    """Set the words of a sentence and their tags. word, tag, ents: indices of columns."""

    def read(column: int | None, missing: tuple[str, ...]) -> list[str | None]:
        if column is None:
            return [None] * len(rows)
        return [None if row[column] in missing else row[column] for row in rows]

    sentence.words = [row[word] for row in rows]
    sentence.tags, sentence.pos = read(tag, _MISSING_TAG), read(None, ())
    sentence.entities, *sentence.layers = (read(i, _MISSING_ENTITY) for i in (*ents,) or (None,))


def is_row(line: Line, tabs: bool) -> bool:
    """Return whether a line is neither blank nor a comment, nor starts a document."""
    text = line.text
    if not text.strip(" \t") or _DOCUMENT.match(text):
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


def _find_columns(
    n_columns: int, word_column: int, tag_column: int, ent_columns: Sequence[int]
) -> tuple[int, int | None, list[int]] | str:
    """Return the indices of word, tag and entity tags in a row, or what is wrong with it."""
    given = [("word", word_column), ("tag", tag_column), *(("entity tag", n) for n in ent_columns)]
    found: dict[int, str] = {}
    for what, column in given:
        if column or what == "word":
            if not 1 <= abs(column) <= n_columns:
                return f"{n_columns} columns; column {column} for the {what} does not exist"
            index = (column - (column > 0)) % n_columns
            if index in found:
                return (
                    f"{n_columns} columns; column {index + 1} is chosen for the {found[index]} and "
                    f"the {what}; expected different columns"
                )
            found[index] = what
    word, *others = found
    return word, others.pop(0) if tag_column else None, others


def read_iob_lines(
    lines: Iterable[Line], *, on_malformed: OnMalformed = raise_error
) -> Iterator[Sentence]:
    """Yield the sentences of spaCy's `.iob` files, whose words are `word|tag` or `word|pos|tag`.

    A sentence a line. on_malformed: receives the error of a line of other words.
    """
    for line in lines:
        if line.problem is None and not line.text.strip():
            continue
        rows = [word.split("|") for word in line.text.split()]
        if line.problem or any(len(row) not in (2, 3) or not row[0] for row in rows):
            on_malformed(line.error(line.problem or "expected words such as Ada|B-PER"))
            continue
        n = len(rows)
        yield Sentence(
            lines=[line] * n,
            words=[row[0] for row in rows],
            tags=[row[1] if len(row) == 3 else None for row in rows],
            pos=[None] * n,
            entities=[None if row[-1] in ("_", "-", "") else row[-1] for row in rows],
        )
