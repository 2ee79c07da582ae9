"""CoNLL columns: one word a line, its tags in further columns, blank lines between sentences.

CoNLL-2000, CoNLL-2003, WNUT-17, JNLPBA and Universal NER (.iob2) are in this format.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

from bcrf.chain.potentials import counted
from bcrf.io.text import CorpusError, Line
from spacy_bcrf.annotation.tag_forms import MISSING, STANDARD, find_form
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import (
    DOCUMENT,
    MOST_BAD,
    Sample,
    find_separator,
    is_row,
    split_row,
)
from spacy_bcrf.corpora.sentence import OnMalformed, Sentence, align, raise_error
from spacy_bcrf.corpora.tagged_sentences import make_records, scan_rows, skip_sentence

CHUNKS = {
    *("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"),
    *("NC", "VC", "PC", "AC"),
}
"""Labels of chunks: of CoNLL-2000 and CoNLL-2003, English and German."""
MAX_SENTENCE = 200
"""Most words of a sentence, beyond which a file without blank lines seems to lack them."""
MAX_LABELS = 50
"""Largest number of entity labels without a prefix that a column has by its content."""

_BARE = re.compile(r"[BILUESMWO]|[_-]?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][\w.-]*|[_-]?")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?:(?=.)")
_PLACED = re.compile(r"\D\d")
_NUMBER = re.compile(r"\d+(-\d+)?")
_TEXT = re.compile(r"# +text = (.*)")
_MISSING_TAG = ("_", "")
_MISSING_ENTITY = ("_", "-", "")


class Columns(NamedTuple):
    """Columns of word and entity tags, from 1, or -1 for the last. Outer entities come first."""

    word: int = 1
    entities: Sequence[int] = (-1,)


def recognize(sample: Sample) -> bool:
    """Return whether a column has entity tags."""
    columns = [*zip(*sample.rows, strict=True)]
    has_tags = bool(_find_tag_columns(sample)) or any(set(each) == {"O"} for each in columns)
    return len(columns) > 1 and has_tags


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    """Yield the records of a file. ValueError if it has no column of words."""
    word, entities = _choose_columns(sample, reading)
    if reading.word_column is None and not reading.tag_column and _are_numbers(sample.column(word)):
        raise ValueError(
            f"{sample.path}: column {word} has numbers, not words, and no column has entity tags; "
            "expected `convert --word-column`, with --ent-column or --tag-column"
        )
    tags = {tag for column in entities for tag in sample.column(column)}
    if len(entities) == 1 and (column := _find_labels(sample, entities[0])):
        raise ValueError(
            f"{sample.path}: the labels of entities are in column {column}, apart from their "
            "prefixes; expected one column of tags such as B-PER"
        )
    if reading.ent_columns is not None:
        tags.add("O")  # without it, words of a text could be labels
    if sample.header is not None:
        reading.report(f"{sample.path}:{sample.header.number}: the names of columns are left out")
    if len(sample.rows) > MAX_SENTENCE and all(line.text.strip() for line in sample.lines[:-1]):
        reading.report(f"{sample.path}: no blank line, so all words are one sentence")
    lines = scan_rows(sample.path, reading.advance)
    number = sample.header and sample.header.number
    sentences = read_columns(
        (line for line in lines if line.number != number),
        word_column=word,
        tag_column=reading.tag_column,
        ent_columns=entities,
        drop_words=reading.drop_words,
        on_malformed=partial(skip_sentence, reading),
    )
    if prefix := _find_language(sample.column(word)):
        reading.report(f"{sample.path}: {prefix!r} before each word is left out, as in WikiANN")
        sentences = (_without(sentence, prefix) for sentence in sentences)
    if all(map(_PLACED.fullmatch, words := sample.column(word))) and len(words) > 2:
        reading.report(f"{sample.path}: the digit behind each word is left out, as in Weibo NER")
        sentences = (replace(each, words=[w[:1] for w in each.words]) for each in sentences)
    if len(entities) == 1 and (name := _find_name(sample.column(entities[0]))):
        reading.report(
            f"{sample.path}: {name!r} is the label of the first row alone. If it names a column, "
            "delete the row"
        )
    return make_records(sentences, reading, tags)


def _find_language(words: Sequence[str]) -> str:
    """Return the code of a language before all words, such as `en:`, or nothing."""
    found = {match[0] if (match := _LANGUAGE.match(word)) else "" for word in words}
    return found.pop() if len(found) == 1 and len(words) > 1 else ""


def _without(sentence: Sentence, prefix: str) -> Sentence:
    return replace(sentence, words=[w.removeprefix(prefix) or w for w in sentence.words])


def _find_name(column: Sequence[str]) -> str | None:
    """Return the label of the first row if no other row has it, and no tag has a prefix."""
    form = find_form(column)
    is_plain = form is not None and form.kind == "plain"
    is_label = is_plain and column[0] not in (*MISSING, "O", "o")
    return column[0] if is_label and column.count(column[0]) == 1 else None


def _choose_columns(sample: Sample, reading: Reading) -> Columns:
    """Return the columns of word and entity tags: the given ones, else by content."""
    word, entities = reading.word_column, reading.ent_columns
    _check_ent_columns(sample, entities or ())
    if word is not None and entities is not None:
        return Columns(word, entities)
    found = guess_columns(sample)
    if entities is None and (twice := _find_twice(sample, found.entities)):
        raise CorpusError(
            f"{sample.path}: most entities of columns {twice[0]} and {twice[1]} are equal, as gold "
            "and predicted ones; expected `convert --ent-column` for one of them, or twice for both"
        )
    if found != Columns():
        listed = " and ".join(map(str, found.entities))
        guessed = [f"words in column {found.word}"] * (word is None)
        guessed += [f"entity tags in column {listed}"] * (entities is None)
        reading.report(
            f"{sample.path}: {', '.join(guessed)}, by content (`convert --word-column`, "
            "--ent-column)"
        )
    return Columns(
        found.word if word is None else word, found.entities if entities is None else entities
    )


def _find_twice(sample: Sample, columns: Sequence[int]) -> tuple[int, int] | None:
    """Return two columns in which most words of entities have the same tag."""
    for pair in combinations(columns, 2):
        rows = zip(*map(sample.column, pair), strict=True)
        tags = [row for row in rows if not {*row} <= {*MISSING, "O", "o"}]
        if tags and 2 * sum(a == b for a, b in tags) >= len(tags):
            return pair
    return None


def guess_columns(sample: Sample) -> Columns:
    """Return the columns of a file, by default the first and the last.

    The entity tags are all columns of tags such as O and B-PER, as in GENIA and GermEval, but the
    chunks of CoNLL-2003; only chunks are the last column. Columns of nothing but O come last: their
    entities may follow. If the first column has numbers, entity tags or few different values, the
    word is the column with the most values.
    """
    columns = [*zip(*sample.rows, strict=True)]
    tags = _find_tag_columns(sample)
    if not tags:
        return Columns()
    n_values = {
        i: len(set(column))
        for i, column in enumerate(columns)
        if i not in tags and not all(_NUMBER.fullmatch(x) or x in MISSING for x in column)
    }
    if not n_values:
        return Columns()
    word = max(n_values, key=lambda i: n_values[i])
    if 2 * n_values.get(0, 0) >= n_values[word]:
        word = 0
    empty = [i for i, column in enumerate(columns) if set(column) == {"O"}]
    layers = [i for i, labels in tags.items() if not (labels and labels <= CHUNKS)] + empty
    layers = layers or [*tags][-1:]
    return Columns(word + 1, tuple(-1 if i == len(columns) - 1 else i + 1 for i in layers))


def _find_tag_columns(sample: Sample) -> dict[int, set[str]]:
    """Return the labels of each column of tags by index, none of the only one without prefixes."""
    found: dict[int, set[str]] = {}
    columns = [*zip(*sample.rows, strict=True)]
    for i, column in enumerate(columns):
        form = find_form(column)
        if form is None or form.kind != "joined" or (form != STANDARD and "O" not in column):
            continue
        given = [value for value in column if value not in MISSING]
        if sum(map(form.fits, given)) >= (1 - MOST_BAD) * len(given):
            pairs = map(form.split, set(given))
            found[i] = {label for prefix, label in pairs if prefix}
    plain = [i for i, column in enumerate(columns) if _have_no_prefix(column)]
    return found or {i: set() for i in plain[-1:]}


def _find_labels(sample: Sample, prefixes: int) -> int | None:
    """Return the column, from 1, that has a label wherever a column of prefixes has B or I."""
    form = find_form(sample.column(prefixes))
    if form is None or form.kind != "bare":
        return None
    outside = [tag in ("O", "o") for tag in sample.column(prefixes)]
    for i, column in enumerate(zip(*sample.rows, strict=True), 1):
        is_empty = [value in MISSING or value in ("O", "o") for value in column]
        if is_empty == outside and len(set(column)) <= MAX_LABELS and find_form(column) != form:
            return i
    return None


def _check_ent_columns(sample: Sample, columns: Sequence[int]) -> None:
    """Raise CorpusError for a column without entity tags if another column has some."""
    for column in columns:
        others = guess_columns(sample).entities
        own, best = (sample.column(each) for each in (column, others[0]))
        if 2 * _count_tags(own) < len(own) and not _have_no_prefix(own) and _count_tags(best):
            listed = " and ".join(map(str, others))
            raise CorpusError(
                f"{sample.path}: column {column} has no entity tags, column {listed} has"
            )


def _count_tags(values: Sequence[str]) -> int:
    form = find_form(values) or STANDARD
    return sum(bool(form.split(value)[0]) or value == "O" for value in values)


def _have_no_prefix(column: Sequence[str]) -> bool:
    """Return whether most values are O, and the others bare B and I, or labels alone."""
    values = Counter(column)
    outside = values["O"] + values["o"]
    is_bare = all(map(_BARE.fullmatch, values)) and len(values) > 1
    are_labels = 1 < len(values) <= MAX_LABELS and all(map(_NAME.fullmatch, values))
    return outside > 0 and (is_bare or (are_labels and 2 * outside >= len(column)))


def _are_numbers(values: Sequence[str]) -> bool:
    """Return whether a column has numbers, as of tokens."""
    return len(values) > 1 and all(map(_NUMBER.fullmatch, values))


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
    builder = _Builder(tabs, drop_words, (word_column, tag_column, ent_columns))
    for line in chain(head, lines, [Line(Path(), 0, "")]):
        if builder.continues(line):
            builder.add(line)
            continue
        if builder.error is not None:
            on_malformed(builder.error)
        elif builder.rows:
            yield builder.finish()
        builder.start(line)


class _Builder:
    """Collect the rows of one sentence after another. error: of the sentence, None if valid.

    columns: of word, tag and entity tags.
    """

    def __init__(
        self, tabs: bool, drop_words: bool, columns: tuple[int, int, Sequence[int]]
    ) -> None:
        self.tabs, self.drop_words, self.columns = tabs, drop_words, columns
        self.is_short = isinstance(_find_columns(2, *columns), str)
        self.n_columns, self.first_row, self.word = 0, 0, 0
        self.tag: int | None = None
        self.ents: list[int] = []
        self.text: str | None = None
        self.starts_document = False
        self.sentence = Sentence()
        self.rows: list[list[str]] = []
        self.first_error: CorpusError | None = None

    @property
    def error(self) -> CorpusError | None:
        is_empty = self.sentence.dropped and not self.rows
        return self.sentence.dropped[0] if is_empty else self.first_error

    def continues(self, line: Line) -> bool:
        """Return whether a line has a word. A comment that is not UTF-8 has none to lose."""
        if line.problem is not None and not line.text:
            return True
        is_source = line.text.startswith("#\t") and line.text.count("\t") == 1
        is_comment = is_source and self.is_short and not self.rows and line.problem is None
        return is_row(line, self.tabs) and not is_comment

    def add(self, line: Line) -> None:
        """Add a row, or note its error. CorpusError if the first one lacks a column."""
        row = split_row(line, self.tabs)
        problem = line.problem or self._check(line, row)
        if problem is None:
            if self.first_error is None:
                self.sentence.lines.append(line)
                self.rows.append(row)
        elif self.drop_words:
            self.sentence.dropped.append(line.error(problem))
        else:
            self.first_error = self.first_error or line.error(problem)

    def _check(self, line: Line, row: list[str]) -> str | None:
        """Return what is wrong with a row. The first row decides about the number of columns."""
        if not self.n_columns:
            self.n_columns, self.first_row = len(row), line.number
            found = _find_columns(self.n_columns, *self.columns)
            if isinstance(found, str):
                raise line.error(found)
            self.word, self.tag, self.ents = found
        if len(row) != self.n_columns:
            return (
                f"{counted(len(row), 'column')}; expected {self.n_columns}, separated by "
                f"{'tabs' if self.tabs else 'blanks'}, as in line {self.first_row}"
            )
        if not row[self.word].strip(" "):
            return f"empty word; expected one in column {self.word + 1}"
        return None

    def finish(self) -> Sentence:
        """Return the sentence of the rows."""

        def read(column: int | None, missing: tuple[str, ...]) -> list[str | None]:
            if column is None:
                return [None] * len(self.rows)
            return [None if row[column] in missing else row[column] for row in self.rows]

        found = self.sentence
        found.words = [row[self.word] for row in self.rows]
        found.tags, found.pos = read(self.tag, _MISSING_TAG), read(None, ())
        layers = (read(i, _MISSING_ENTITY) for i in (*self.ents,) or (None,))
        found.entities, *found.layers = layers
        found.starts_document = self.starts_document
        if self.text is not None:
            found.spaces = align(found.words, self.text)
        self.starts_document = False
        return found

    def start(self, line: Line) -> None:
        """Start the next sentence after a line without a word."""
        if self.rows or self.error is not None:
            self.sentence, self.rows, self.text = Sentence(), [], None
            self.first_error = None
        self.starts_document |= DOCUMENT.match(line.text) is not None
        if match := _TEXT.match(line.text):
            self.text = match[1].strip()


def _find_columns(
    n_columns: int, word_column: int, tag_column: int, ent_columns: Sequence[int]
) -> tuple[int, int | None, list[int]] | str:
    """Return the indices of word, tag and entity tags in a row, or what is wrong with it."""
    given = [("word", word_column), ("tag", tag_column), *(("entity tag", n) for n in ent_columns)]
    found: dict[int, str] = {}
    n = counted(n_columns, "column")
    for what, column in given:
        if column or what == "word":
            if not 1 <= abs(column) <= n_columns:
                return f"{n}; column {column} for the {what} does not exist"
            index = (column - (column > 0)) % n_columns
            if index in found:
                return (
                    f"{n}; column {index + 1} is chosen for the {found[index]} and "
                    f"the {what}; expected different columns"
                )
            found[index] = what
    word, *others = found
    return word, others.pop(0) if tag_column else None, others
