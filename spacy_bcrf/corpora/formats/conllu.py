"""CoNLL-U, the format of Universal Dependencies: https://universaldependencies.org/format.html"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from spacy.parts_of_speech import IDS  # type: ignore[import-not-found]

from bcrf.chain.potentials import counted
from bcrf.io.text import CorpusError, Line
from spacy_bcrf.annotation.tag_forms import are_tags
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.sentence import OnMalformed, Sentence, align, join, raise_error
from spacy_bcrf.corpora.tagged_sentences import PREFIXED, make_records, scan_rows, skip_sentence

_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
UPOS = frozenset(IDS) - {"", "EOL"} | {"_"}
"""Values of the column UPOS, `_` if missing."""
_MISSING_ENTITY = ("_", "-", "")

# At most nine digits: int() refuses numbers of thousands of digits.
_WORD = re.compile("[1-9][0-9]{0,8}")
_RANGE = re.compile("([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.[1-9][0-9]{0,8}")
_ID = re.compile(r"[1-9]\d*([-.][1-9]\d*)?")

_ENTITY_KEYS = ("entity", "ent", "ner", "ne", "name")
_ENT_KEY = "NER"
"""The key of entity tags in MISC, unless others are found."""


def recognize(sample: Sample) -> bool:
    """Return whether a file has ten columns, IDs and UPOS. CoNLL-X has other parts of speech."""
    rows = sample.rows
    is_wide = bool(rows) and len(rows[0]) == 10 and all(_ID.fullmatch(row[0]) for row in rows)
    return is_wide and UPOS.issuperset(row[3] for row in rows)


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    """Yield the records of a file. ValueError if several keys of MISC have entity tags."""
    values: dict[str, set[str]] = {}
    for row in sample.rows:
        for key, value in read_misc(row[-1]).items() if len(row) == 10 else ():
            values.setdefault(key, set()).add(value)
    key = _choose_key(sample, reading, values) if reading.ent_key is None else reading.ent_key
    others = [name for name in values if name.lower() in _ENTITY_KEYS and name != key]
    if reading.ent_key is None and others and not are_tags(values.get(key, ())):
        reading.report(
            f"{sample.path}: {' and '.join(others)} in MISC is not read; expected tags, NER=B-PER"
        )
    if reading.ent_key is None and not values.get(key) and are_tags(sample.column(5)):
        reading.report(f"{sample.path}: XPOS has entity tags; expected `convert --format columns`")
    sentences = read_conllu(
        scan_rows(sample.path, reading.advance),
        tag=reading.tag,
        ent_key=key,
        on_malformed=partial(skip_sentence, reading),
    )
    return make_records(sentences, reading, values.get(key, PREFIXED))


def _choose_key(sample: Sample, reading: Reading, values: dict[str, set[str]]) -> str:
    """Return the key of MISC whose values are entity tags, "" for tags without a key."""
    found = [key for key, own in values.items() if are_tags(own)]
    if _ENT_KEY in found or not found:
        return _ENT_KEY
    if len(found) > 1:
        raise ValueError(
            f"{sample.path}: entity tags under {' and '.join(found)}; expected `convert --ent-key`"
        )
    reading.report(
        f"{sample.path}: entity tags under {found[0] or 'no key'} in MISC (see `convert --ent-key`)"
    )
    return found[0]


def read_conllu(
    lines: Iterable[Line],
    *,
    tag: str = "upos",
    ent_key: str = "NER",
    on_malformed: OnMalformed = raise_error,
) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file, one token for each syntactic word.

    tag: the column of the tag, "upos" or "xpos"; `_` means missing annotation.
    ent_key: key of the entity tag in MISC, empty for a tag without one; `_`, `-` or none is
    missing. on_malformed: receives the first error of a sentence. If it returns, the sentence is
    skipped.

    If the words of a multiword range (3-4) do not make up its form ("du": de le), the spaces of the
    sentence are None. CorpusError names the first malformed line.
    """
    column = {"upos": 3, "xpos": 4}[tag]
    starts_document = False
    for group in _split_sentences(lines):
        builder = _Builder(column, ent_key)
        try:
            for line in group:
                builder.add(line)
            sentence = builder.finish()
        except CorpusError as error:
            on_malformed(error)
            starts_document |= builder.sentence.starts_document
            continue
        sentence.starts_document |= starts_document
        starts_document = False
        yield sentence


def _split_sentences(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines of each sentence. Comments between blank lines belong to the next one."""
    group: list[Line] = []
    has_rows = False
    for line in lines:
        if line.problem is not None or line.text.strip(" "):
            group.append(line)
            has_rows |= not line.text.startswith("#")
        elif has_rows:
            yield group
            group, has_rows = [], False
    if has_rows:
        yield group


class _Range(NamedTuple):
    """A multiword range. first, last: its words, from 1. space: whether a space follows."""

    line: Line
    first: int
    last: int
    form: str
    space: bool


class _Builder:
    """Collect the lines of one sentence. CorpusError for the first line that does not fit."""

    def __init__(self, tag_column: int, ent_key: str) -> None:
        self.tag_column = tag_column
        self.ent_key = ent_key
        self.text: str | None = None
        self.sentence = Sentence()
        self.words = self.sentence.words
        self.spaces: list[bool] = []
        self.last_row: Line | None = None
        self.range: _Range | None = None
        self.forms_differ = False

    def add(self, line: Line) -> None:
        if line.text.startswith("#"):
            if self.last_row:
                raise line.error("a comment within a sentence; expected a blank line before it")
            key, equals, value = line.text[1:].partition("=")
            if key.strip() == "text" and equals:
                self.text = value.strip()
            elif key.split()[:1] == ["newdoc"]:
                self.sentence.starts_document = True
        elif line.problem is not None:
            raise line.error(line.problem)
        else:
            self._add_row(line)

    def _add_row(self, line: Line) -> None:
        self.last_row = line
        columns = line.text.split("\t")
        if len(columns) != len(_COLUMNS):
            raise line.error(
                f"{counted(len(columns), 'column')}; expected 10, separated by tabs: "
                f"{' '.join(_COLUMNS)}"
            )
        if not columns[1]:
            raise line.error("empty FORM; expected a word")
        if _WORD.fullmatch(columns[0]):
            self._add_word(line, columns)
        elif match := _RANGE.fullmatch(columns[0]):
            self._add_range(line, int(match[1]), int(match[2]), columns)
        elif match := _EMPTY_NODE.fullmatch(columns[0]):
            if int(match[1]) != len(self.words):
                raise line.error(
                    f"empty node {columns[0]} after word {len(self.words)}; "
                    f"expected {len(self.words)}.1 and so on"
                )
            self.sentence.empty_nodes += 1
        else:
            raise line.error(
                f"ID {columns[0]!r}; expected a word (3), a range (3-4) or an empty node (3.1)"
            )

    def _add_word(self, line: Line, columns: list[str]) -> None:
        if int(columns[0]) != len(self.words) + 1:
            raise line.error(f"word {columns[0]}; expected {len(self.words) + 1}")
        upos = columns[3]
        if upos not in UPOS:
            raise line.error(
                f"UPOS {upos!r}; expected _ or one of {' '.join(sorted(UPOS - {'_'}))}"
            )
        misc = read_misc(columns[9])
        entity = misc.get(self.ent_key, "")
        tag = columns[self.tag_column]
        self.sentence.lines.append(line)
        self.words.append(columns[1])
        self.sentence.tags.append(None if tag in ("_", "") else tag)
        self.sentence.pos.append(None if upos == "_" else upos)
        self.sentence.entities.append(None if entity in _MISSING_ENTITY else entity)
        self._add_space(misc.get("SpaceAfter") != "No")

    def _add_range(self, line: Line, first: int, last: int, columns: list[str]) -> None:
        if self.range and self.range.last > len(self.words):
            outer = f"{self.range.first}-{self.range.last}"
            raise line.error(f"range {columns[0]} within range {outer}")
        if first != len(self.words) + 1 or last < first:
            raise line.error(f"range {columns[0]}; expected it to start at {len(self.words) + 1}")
        space = read_misc(columns[9]).get("SpaceAfter") != "No"
        self.range = _Range(line, first, last, columns[1], space)

    def _add_space(self, space: bool) -> None:
        if self.range is None or len(self.words) > self.range.last:
            self.spaces.append(space)
            return
        self.spaces.append(False)
        if len(self.words) == self.range.last:
            self.spaces[-1] = self.range.space
            words = self.words[self.range.first - 1 :]
            self.forms_differ |= "".join(words) != self.range.form

    def finish(self) -> Sentence:
        if self.range and self.range.last > len(self.words):
            outer = f"{self.range.first}-{self.range.last}"
            raise self.range.line.error(f"range {outer} in a sentence of {len(self.words)} words")
        if not self.words and self.last_row:
            raise self.last_row.error("the sentence ends before its first word")
        spaces: list[bool] | None = self.spaces
        if self.text is None and (self.forms_differ or all(self.spaces)):
            spaces = None
        elif self.text is not None and join(self.words, self.spaces) != self.text:
            # Some files have a text but no SpaceAfter.
            spaces = align(self.words, self.text)
        self.sentence.spaces = spaces
        return self.sentence


def read_misc(column: str) -> dict[str, str]:
    """Return the values of MISC by key. A value without a key has the key ""."""
    if column == "_":
        return {}
    pairs = (pair.partition("=") for pair in column.split("|"))
    return {key if equals else "": value if equals else key for key, equals, value in pairs}
