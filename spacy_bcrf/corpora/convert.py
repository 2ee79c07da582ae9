"""Conversion of annotated files of all formats to `.spacy` files, with counts."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from sys import maxsize
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import get_lang_class
from spacy.vocab import Vocab
from tqdm import tqdm

from bcrf.io.json_objects import Item, Problem, as_object, read_objects
from bcrf.io.text import CorpusError, Line, scan_lines
from bcrf.lazy import lazy

from .counts import Counts, Problems
from .doc_files import write_all
from .entity_tag_reader import EntityTagReader
from .formats import brat, jsonl, label_studio, prodigy, webanno
from .formats.other_spans import find_unread
from .make_doc import Align, make_doc
from .record import Ignored, Record
from .sentence import UNSPACED, Sentence, make_records
from .time_limit import TookTooLongError, time_limit, watch_tokenizer

MOST_SKIPPED = 0.1
"""Largest share of records with a problem, unless the caller asks for more."""

RECORD_FORMATS = ("json", "jsonl", "prodigy", "label-studio", "brat", "webanno")
"""Formats of records. "json" is any of JSON, by the first record of the file."""

_ATTRS = ("ORTH", "TAG", "POS", "ENT_IOB", "ENT_TYPE", "SENT_START")


Reader = Callable[..., Iterator[Sentence]]
"""Reads the sentences of one format of columns, such as `columns.read_columns`."""
Source = tuple[Path, Reader | str]
"""A file, and the reader of its columns or one of RECORD_FORMATS."""


def convert(
    sources: Sequence[Source],
    output: Path,
    *,
    lang: str = "xx",
    labels: Iterable[str] | None = None,
    spans_key: str | None = None,
    align: Align = "strict",
    n_sents: int = 1,
    scheme: str = "auto",
    ent_complete: bool = False,
    shard: int = 0,
    skip_malformed: bool | None = None,
    timeout: float = 60.0,
    report: Callable[[str], object] = lambda problem: None,
) -> Counts:
    """Write the records of all sources to `output`.

    lang: language of the tokenizer, and of words in files without spaces. If the language has
        spaces, such documents have `Doc.has_unknown_spaces`, and spaCy trains on their words.
    labels: the only valid labels; None for any. With O among them, they are the names of `ner_tags`
        in the order of their ids.
    n_sents: sentences of columns in a Doc; 0 for all of a document, which never crosses files.
    spans_key, align: see `make_doc`. scheme, ent_complete: see `EntityTagReader`. shard: see
        `doc_files.write_all`.
    skip_malformed: skip all records with a problem; or, if False, write nothing if there is one, or
        if a span is left out. By default, skip none of columns, and MOST_SKIPPED of other records.
    timeout: seconds for the tokenizer of a text; 0 for no limit.
    report: receives the first `counts.MAX_REPORTS` problems, each with file and line.

    CorpusError names the problems if there are too many, if a file cannot be read, or if no record
    is left. `output` then stays as it was. ValueError for a wrong argument.
    """
    if n_sents < 0:
        raise ValueError(f"{n_sents} sentences per document; expected 0 (all) or more")
    check_language(lang)
    entity_reader = EntityTagReader(scheme, complete=ent_complete)
    conversion = _Conversion(_Blank(lang, timeout), labels, spans_key, entity_reader)
    counts, problems = conversion.counts, conversion.problems
    if all(callable(reader) for _, reader in sources):
        counts.unit = "sentences"

    def read() -> Iterator[Doc]:
        yield from conversion.convert(sources, align, n_sents)
        n_skipped = counts.skipped.total()
        n_records = counts.records - counts.ignored.total()
        most: float = n_records if skip_malformed else 0
        if skip_malformed is None and not conversion.n_skipped_sentences:
            most = MOST_SKIPPED * (n_records - conversion.n_sentences)
        wrong = ""
        if n_skipped > most:
            wrong = (
                f"{output}: not written, because {n_skipped:,} of {counts.records:,} {counts.unit} "
                "have a problem; `convert --skip-malformed` leaves them out"
            )
        elif skip_malformed is False and counts.left_out:
            wrong = f"{output}: not written, because `convert --strict` leaves out no span"
        elif not counts.docs and not problems.fatal:
            wrong = f"{', '.join(str(path) for path, _ in sources)}: no record is left"
        if wrong or problems.fatal:
            raise CorpusError("\n".join(problems.lines() + [f"{wrong}: {counts}"] * bool(wrong)))

    write_all(read(), output, shard, _ATTRS)
    for line in problems.lines():
        report(line)
    if conversion.overlap:
        report(
            f"{counts.left_out['overlap']:,} of {counts.spans:,} spans overlap longer ones and are "
            f"left out, such as {conversion.overlap}"
        )
    if entity_reader.n_tags:
        counts.scheme, counts.repaired = entity_reader.scheme, entity_reader.n_repaired
        counts.assumed_outside = entity_reader.n_assumed_outside
    if better := entity_reader.better_scheme:
        report(
            f"Warning: {counts.repaired:,} entity tags are invalid in the scheme {counts.scheme}, "
            f"fewer are in {better}; expected `convert --scheme {better}` or auto"
        )
    return counts


def check_language(lang: str) -> str:
    """Return a language. ValueError if spaCy does not know it."""
    try:
        get_lang_class(lang)
    except ImportError:
        raise ValueError(f"unknown language {lang!r}; expected a code of spaCy, or xx") from None
    return lang


class _Blank:
    """A blank pipeline. Its tokenizer, which may need a package, loads with the first text."""

    def __init__(self, lang: str, timeout: float) -> None:
        self.lang, self.timeout = lang, timeout
        self.vocab = Vocab()

    @lazy
    def _nlp(self) -> Language:
        try:
            nlp = spacy.blank(self.lang)
        except ImportError as error:
            raise ValueError(f"language {self.lang!r}: {error}") from None
        nlp.max_length = maxsize  # the limit is for parsers
        watch_tokenizer(nlp)
        return nlp

    def make_doc(self, text: str) -> Doc:
        """Tokenize a text. Problem if it takes more than `timeout` seconds."""
        nlp = self._nlp
        try:
            with time_limit(self.timeout):
                return nlp.make_doc(text)
        except TookTooLongError as error:
            raise Problem(
                "not tokenized", f"the tokenizer {error} (see `convert --timeout`)"
            ) from None


class _Conversion:
    def __init__(
        self,
        nlp: _Blank,
        names: Iterable[str] | None,
        spans_key: str | None,
        entity_reader: EntityTagReader,
    ) -> None:
        self.labels, self.tags = _split_names(names)
        self.nlp, self.spans_key, self.entity_reader = nlp, spans_key, entity_reader
        self.counts, self.problems = Counts(), Problems()
        self.n_sentences = self.n_skipped_sentences = 0  # records of columns
        self.overlap = ""  # the first one
        self._readers: dict[str, Callable[..., Record]] = {
            "jsonl": partial(jsonl.read_record, tags=self.tags, spans_key=spans_key),
            "brat": brat.read_record,
            "webanno": jsonl.read_record,
            "prodigy": prodigy.read_record,
            "label-studio": partial(label_studio.read_record, left_out=self.counts.others),
        }

    def convert(self, sources: Sequence[Source], align: Align, n_sents: int) -> Iterator[Doc]:
        for record in self._merge(self._read(sources, n_sents)):
            try:
                made = make_doc(record, self.nlp, self.spans_key, align)
            except Problem as problem:
                self._skip(record.places, record.n_spans, problem)
                continue
            for each in made.left_out:
                message = f"{record.places[0]}: {each}"
                if each.reason == "overlap":  # in some corpora so many that they hide all others
                    self.overlap = self.overlap or message
                else:
                    self.problems.add(message, kind=each.reason)
            self.counts.add(record, made, self.spans_key)
            yield made.doc

    def _read(self, sources: Sequence[Source], n_sents: int) -> Iterator[tuple[str, Record]]:
        n_bytes = sum(path.stat().st_size for path, _ in sources if path.is_file())
        bar = tqdm(total=n_bytes, unit="B", unit_scale=True, delay=1.0, disable=None)
        with bar:
            for path, reader in sources:
                bar.set_description(path.name, refresh=False)
                n_before, n_skipped = self.counts.records, self.counts.skipped.total()
                is_empty = True
                try:
                    for pair in self._read_file(path, reader, bar.update, n_sents):
                        is_empty = False
                        yield pair
                    if is_empty and self.counts.records == n_before:
                        raise CorpusError(f"{path}: no records; expected at least one")
                except CorpusError as error:
                    self.problems.fail(error)
                if callable(reader):  # whoever asked for the next record has counted the last one
                    self.n_sentences += self.counts.records - n_before
                    self.n_skipped_sentences += self.counts.skipped.total() - n_skipped

    def _read_file(
        self, path: Path, reader: Reader | str, advance: Callable[[int], object], n_sents: int
    ) -> Iterator[tuple[str, Record]]:
        if callable(reader):
            sentences = self._read_sentences(reader, scan_lines(path, advance))
            for record in make_records(sentences, n_sents, self.nlp.lang in UNSPACED):
                found = {label for span in record.spans for label in span.labels}
                if self.labels is not None and (unknown := found - self.labels):
                    names, known = (", ".join(sorted(some)) for some in (unknown, self.labels))
                    problem = Problem("unknown label", f"unknown {names}; expected {known}")
                    self._skip(record.places, record.n_spans, problem)
                else:
                    yield "columns", record
        elif reader == "webanno":
            sentences_of = webanno.read_sentences(path, scan_lines(path, advance))
            yield from self._read_objects(reader, sentences_of)
        elif reader == "brat" and not path.with_suffix(".ann").exists():
            self.counts.ignored["text without .ann"] += 1
        elif reader == "brat":
            item = brat.read_document(path, self.counts.others)
            yield from self._read_objects(reader, iter([item]))
        else:
            yield from self._read_objects(reader, read_objects(path, advance))

    def _read_sentences(self, reader: Reader, lines: Iterable[Line]) -> Iterator[Sentence]:
        """Yield the sentences of a file with IOB2 tags."""

        def skip(error: CorpusError) -> None:
            self.counts.skip([str(error)], None, "malformed")
            self.problems.add(str(error))

        starts_document = True
        for sentence in reader(lines, on_malformed=skip):
            sentence.starts_document |= starts_document
            try:
                sentence.entities, *sentence.layers = [
                    self.entity_reader.read(replace(sentence, entities=layer))
                    for layer in (sentence.entities, *sentence.layers)
                ]
            except CorpusError as error:
                skip(error)
                starts_document = sentence.starts_document
                continue
            for line in sentence.dropped:
                self.problems.add(str(line))
            self.counts.others["malformed words"] += len(sentence.dropped)
            self.counts.others["empty nodes"] += sentence.empty_nodes
            starts_document = False
            yield sentence

    def _read_objects(self, name: str, items: Iterator[Item]) -> Iterator[tuple[str, Record]]:
        if name == "json":
            name, items = _detect_format(items)
        for place, value in self._expand(items):
            if isinstance(value, Problem):
                self._skip([place], value.n_spans, value)
                continue
            try:
                yield name, self._readers[name](value, place, self.labels)
                if name in ("jsonl", "prodigy"):
                    unread = find_unread(value)
                    self.counts.others.update(f"lists {json.dumps(key)}" for key in unread)
            except Problem as problem:
                self._skip([place], self._count_spans(value), problem)
            except Ignored as reason:
                self.counts.ignored[str(reason)] += 1
                self.counts.ignored_spans += self._count_spans(value)

    def _expand(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the texts of ner-annotator's object, in place of the object."""
        for item in items:
            fields = item.value if isinstance(item.value, dict) else {}
            texts = fields.get("annotations")
            if not isinstance(texts, list) or "classes" not in fields or "text" in fields:
                yield item
                continue
            self.counts.ignored["null"] += texts.count(None)
            yield from (Item(item.place, as_object(text)) for text in texts if text is not None)

    def _merge(self, records: Iterable[tuple[str, Record]]) -> Iterator[Record]:
        """Merge Prodigy's answers about the same text. They come last: a text recurs anywhere."""
        groups: dict[object, list[Record]] = {}
        for name, record in records:
            if name == "prodigy":
                key = record.text or tuple(record.words or ())
                groups.setdefault(key, []).append(record)
            else:
                yield record
        for group in tqdm(groups.values(), "merging", unit="docs", delay=1.0, disable=None):
            try:
                yield prodigy.merge(group)
            except Problem as problem:
                places = [place for record in group for place in record.places]
                self._skip(places, sum(record.n_spans for record in group), problem)

    def _count_spans(self, fields: dict[str, Any]) -> int:
        """Count the spans of an invalid record of any tool."""
        return label_studio.count_regions(fields) or jsonl.count_spans(fields, self.tags)

    def _skip(self, places: Sequence[str], n_spans: int | None, problem: Problem) -> None:
        self.counts.skip(places, n_spans, problem.reason)
        self.problems.add(f"{', '.join(places)}: {problem}", len(places))


def _detect_format(items: Iterator[Item]) -> tuple[str, Iterator[Item]]:
    head = []
    fields: dict[str, Any] = {}
    for item in items:
        head.append(item)
        if isinstance(item.value, dict):
            fields = item.value
            break
    is_task = "data" in fields and not fields.keys() & {"text", "tokens"}
    name = "prodigy" if "answer" in fields else "label-studio" if is_task else "jsonl"
    return name, chain(head, items)


def _split_names(names: Iterable[str] | None) -> tuple[frozenset[str] | None, list[str]]:
    """Return the valid labels, None for any, and the tags by id, empty if the names are labels."""
    if names is None:
        return None, []
    names = list(names)
    if "O" not in names:
        return frozenset(names), []
    return frozenset(name.partition("-")[2] or name for name in names if name != "O"), names
