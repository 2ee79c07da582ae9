"""Conversion of annotation tools' records to `.spacy` files, with counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import spacy
from spacy.attrs import ENT_IOB  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm

from bcrf.io.json_objects import Item, Problem, read_objects
from bcrf.io.text import CorpusError
from spacy_bcrf.corpora.doc_files import Writer

from .formats import brat, jsonl, label_studio, prodigy
from .problems import Problems, each_file
from .record import Ignored, Record, make_doc


@dataclass
class RecordCounts:
    """Counts of records and spans. `ignored` and `skipped` count by reason."""

    docs: int = 0
    merged: int = 0
    """Records with the same text as an earlier record."""
    ignored: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    entities: int = 0
    ambiguous: int = 0
    rejected: int = 0
    repeated: int = 0
    ignored_spans: int = 0
    skipped_spans: int = 0
    trimmed: int = 0
    tokens: int = 0
    missing: int = 0
    """Tokens with missing entity annotation."""
    unannotated: int = 0
    """Documents without spans, whose tokens are all missing."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Contents of records that a Doc cannot store, by kind."""

    @property
    def records(self) -> int:
        """Number of records."""
        return self.docs + self.merged + self.ignored.total() + self.skipped.total()

    @property
    def spans(self) -> int:
        """Number of spans."""
        found = self.entities + self.ambiguous + self.rejected + self.repeated
        return found + self.ignored_spans + self.skipped_spans

    def add(self, record: Record, doc: Doc, spans_key: str | None) -> None:
        """Count a record and the document made of it."""
        self.docs += 1
        self.merged += len(record.places) - 1
        spans, rejected = set(record.spans), set(record.rejected)
        n_entities = sum(len(span.labels) == 1 for span in spans)
        self.entities += n_entities
        self.ambiguous += len(spans) - n_entities
        self.rejected += len(rejected)
        self.repeated += len(record.spans) - len(spans) + len(record.rejected) - len(rejected)
        self.trimmed += record.n_trimmed
        self.tokens += len(doc)
        if spans_key is None:
            iob: Any = doc.to_array(ENT_IOB)
            self.missing += int((iob == 0).sum())
        elif not record.complete:
            spans = doc.spans.get(spans_key, ())
            self.missing += len(doc) - len({i for s in spans for i in range(s.start, s.end)})
        self.unannotated += not (record.complete or record.spans or record.rejected)

    def __str__(self) -> str:
        more = [f"{self.unannotated:,} docs without annotation"] * bool(self.unannotated)
        more += [f"{self.trimmed:,} spans trimmed of white space"] * bool(self.trimmed)
        more += [f"{n:,} {what} left out" for what, n in self.left_out.items() if n]
        return "; ".join(
            [
                f"{self.records:,} records = {self.docs:,} docs + {self.merged:,} merged "
                f"+ {_show(self.ignored, 'ignored')} + {_show(self.skipped, 'skipped')}",
                f"{self.spans:,} spans = {self.entities:,} entities "
                f"+ {self.ambiguous:,} ambiguous + {self.rejected:,} rejected "
                f"+ {self.repeated:,} repeated + {self.ignored_spans:,} ignored "
                f"+ {self.skipped_spans:,} skipped",
                f"{self.tokens:,} tokens, {self.missing:,} of them missing",
                *more,
            ]
        )


def _show(reasons: Counter[str], what: str) -> str:
    named = ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common())
    return f"{reasons.total():,} {what}" + (f" ({named})" if named else "")


def convert_records(
    sources: Sequence[tuple[Path, str | None]],
    output: Path,
    *,
    lang: str = "xx",
    labels: Iterable[str] | None = None,
    spans_key: str | None = None,
    shard: int = 0,
    strict: bool = False,
    report: Callable[[str], object] = lambda problem: None,
) -> RecordCounts:
    """Write the records of all sources to `output`.

    sources: files and their formats: "jsonl", "prodigy", "label-studio", "brat", or None to detect
        one of JSON.
    lang: language of the tokenizer. labels: the only valid labels; None for any. With O among them,
        they are the names of `ner_tags` in the order of their ids.
    spans_key: the span group of the spans, which may overlap; None for entities.
    shard: number of documents in a file, see `shards.Writer`; 0 for one file.
    strict: write nothing if a record has a problem.
    report: receives the first `problems.MAX_REPORTS` problems, each with file and line.

    A record with a problem is skipped as a whole. Otherwise the tokens of a skipped span would
    become O. CorpusError, without any output, if a file cannot be read, if no record is left, or if
    `strict` is set and a record is skipped. ValueError for an unknown language.
    """
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise ValueError(f"language {lang!r}: {error}") from None
    conversion = _Conversion(nlp, labels, spans_key, report)
    counts = conversion.counts
    with Writer(output, shard) as writer:
        for doc in conversion.convert(sources):
            writer.add(doc)
        if strict and counts.skipped:
            raise CorpusError(
                f"{output}: not written, because --strict allows no skipped records: {counts}"
            )
        if not counts.docs:
            names = ", ".join(str(path) for path, _ in sources)
            raise CorpusError(f"{names}: no record is left: {counts}")
    return counts


class _Conversion:
    def __init__(
        self,
        nlp: Language,
        names: Iterable[str] | None,
        spans_key: str | None,
        report: Callable[[str], object],
    ) -> None:
        labels, self.tags = _split_names(names)
        self.nlp, self.spans_key = nlp, spans_key
        self.counts = RecordCounts()
        self._problems = Problems(report, "skipped records")
        self._readers: dict[str, Callable[[dict[str, Any], str], Record]] = {
            "jsonl": partial(jsonl.read_record, known_labels=labels, tags=self.tags),
            "brat": partial(jsonl.read_record, known_labels=labels),
            "prodigy": partial(prodigy.read_record, known_labels=labels),
            "label-studio": partial(
                label_studio.read_record, known_labels=labels, left_out=self.counts.left_out
            ),
        }

    def convert(self, sources: Sequence[tuple[Path, str | None]]) -> Iterator[Doc]:
        for record in self._merge(self._read(sources)):
            try:
                doc = make_doc(record, self.nlp, self.spans_key)
            except Problem as problem:
                self._skip(record.places, record.n_spans, problem)
            else:
                self.counts.add(record, doc, self.spans_key)
                yield doc
        self._problems.finish()

    def _read(self, sources: Sequence[tuple[Path, str | None]]) -> Iterator[tuple[str, Record]]:
        """Yield records with their format."""
        for path, name, advance in each_file(sources):
            items = self._read_brat(path) if name == "brat" else read_objects(path, advance)
            if name is None:
                name, items = _detect_format(items)
            for place, value in items:
                if isinstance(value, Problem):
                    self._skip([place], 0, value)
                    continue
                try:
                    record = self._readers[name](value, place)
                except Problem as problem:
                    self._skip([place], self._count_spans(value), problem)
                except Ignored as reason:
                    self.counts.ignored[str(reason)] += 1
                    self.counts.ignored_spans += self._count_spans(value)
                else:
                    yield name, record

    def _read_brat(self, path: Path) -> Iterator[Item]:
        try:
            yield Item(str(path), brat.read_fields(path, self.counts.left_out))
        except Problem as problem:
            yield Item(str(path), problem)

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

    def _skip(self, places: Sequence[str], n_spans: int, problem: Problem) -> None:
        self.counts.skipped[problem.reason] += len(places)
        self.counts.skipped_spans += n_spans
        self._problems.add(f"{', '.join(places)}: {problem}", len(places))


def _detect_format(items: Iterator[Item]) -> tuple[str, Iterator[Item]]:
    """Return the format of the first object, and all items."""
    head = []
    fields: dict[str, Any] = {}
    for item in items:
        head.append(item)
        if isinstance(item.value, dict):
            fields = item.value
            break
    if "answer" in fields:
        name = "prodigy"
    elif "data" in fields and "text" not in fields and "tokens" not in fields:
        name = "label-studio"
    else:
        name = "jsonl"
    return name, chain(head, items)


def _split_names(names: Iterable[str] | None) -> tuple[frozenset[str] | None, list[str]]:
    """Return the valid labels, None for any, and the tags by id, empty if the names are labels."""
    if names is None:
        return None, []
    names = list(names)
    if "O" not in names:
        return frozenset(names), []
    return frozenset(name.partition("-")[2] or name for name in names if name != "O"), names
