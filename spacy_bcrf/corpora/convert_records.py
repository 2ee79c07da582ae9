"""Records of annotation tools to `.spacy` files, and counts of those that cannot be converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from spacy.attrs import ENT_IOB  # type: ignore[import-not-found]
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import read_doc
from spacy_bcrf.corpora.formats.jsonl import Record, count_spans, parse
from spacy_bcrf.io.json_objects import Ignored, Item, Problem, read_objects
from spacy_bcrf.io.shards import Writer
from spacy_bcrf.io.text import CorpusError

from .annotated_doc import DocMaker
from .formats import label_studio, prodigy

Translate = Callable[[dict[str, Any], Counter[str]], dict[str, Any]]


def _take_as_it_is(fields: dict[str, Any], left_out: Counter[str]) -> dict[str, Any]:
    # A span that was rejected must not be taken for one that is right.
    if "answer" in fields:
        raise Problem(
            "another tool",
            '"answer" is of Prodigy, and the first record of the file is not; expected a file '
            "for each of them",
        )
    return fields


_TRANSLATE: dict[str, Translate] = {
    "jsonl": _take_as_it_is,
    "prodigy": prodigy.translate,
    "label-studio": label_studio.translate,
}

MAX_REPORTS = 20


@dataclass
class RecordCounts:
    """Each record and each span that was read is counted in one place."""

    docs: int = 0
    merged: int = 0
    """Records of a text that has one already."""
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
    left_out: Counter[str] = field(default_factory=Counter)
    """What else the records hold, by its kind."""

    @property
    def records(self) -> int:
        return self.docs + self.merged + self.ignored.total() + self.skipped.total()

    @property
    def spans(self) -> int:
        found = self.entities + self.ambiguous + self.rejected + self.repeated
        return found + self.ignored_spans + self.skipped_spans

    def add(self, record: Record, doc: Doc) -> None:
        self.docs += 1
        self.merged += len(record.places) - 1
        spans, rejected = set(record.spans), set(record.rejected)
        n_entities = sum(len(mark.labels) == 1 for mark in spans)
        self.entities += n_entities
        self.ambiguous += len(spans) - n_entities
        self.rejected += len(rejected)
        self.repeated += record.n_spans - len(spans) - len(rejected)
        self.trimmed += record.n_trimmed
        self.tokens += len(doc)
        self.missing += int((read_doc(doc, (ENT_IOB,)) == 0).sum())

    def __str__(self) -> str:
        more = [f"{self.trimmed:,} spans trimmed of white space"] * bool(self.trimmed)
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
    shard: int = 0,
    strict: bool = False,
    report: Callable[[str], object] = lambda problem: None,
) -> RecordCounts:
    """Write the records of all sources, each a file and one of _TRANSLATE (None to find out).

    lang: whose tokenizer to use. labels: the only ones there may be; None for any. shard: how many
    documents to put in a file, see `shards.Writer`. A record with a problem is skipped as a whole:
    without one of its spans, its tokens would seem to be in no entity. `report` is told the first
    MAX_REPORTS of them, each with its place.
    CorpusError where a file cannot be read, where no record is left, or, with `strict`, where one
    is skipped; nothing is written then.
    """
    converter = _Converter(DocMaker(lang), None if labels is None else frozenset(labels), report)
    counts = converter.counts
    with Writer(output, shard) as writer:
        for doc in converter.convert(sources):
            writer.add(doc)
        converter.finish()
        if strict and counts.skipped:
            raise CorpusError(f"{output}: not written, since --strict skips nothing: {counts}")
        if not counts.docs:
            raise CorpusError(f"{output}: not written, since there are no documents: {counts}")
    return counts


class _Converter:
    def __init__(
        self,
        maker: DocMaker,
        labels: frozenset[str] | None,
        report: Callable[[str], object],
    ) -> None:
        self.maker, self.labels, self.report = maker, labels, report
        self.counts = RecordCounts()
        self._n_unreported = 0

    def convert(self, sources: Sequence[tuple[Path, str | None]]) -> Iterator[Doc]:
        for record in self._merge(self._read(sources)):
            try:
                doc = self.maker.make(record)
            except Problem as problem:
                self._skip(record.places, record.n_spans, problem)
            else:
                self.counts.add(record, doc)
                yield doc

    def finish(self) -> None:
        if self._n_unreported:
            self.report(f"and {self._n_unreported:,} more records that were skipped")

    def _read(self, sources: Sequence[tuple[Path, str | None]]) -> Iterator[tuple[str, Record]]:
        """Records, and the format of each, under a progress bar."""
        n_bytes = sum(path.stat().st_size for path, _ in sources if path.is_file())
        with tqdm(total=n_bytes, unit="B", unit_scale=True, delay=1.0, disable=None) as progress:
            for path, name in sources:
                progress.set_description(path.name, refresh=False)
                items = read_objects(path, progress.update)
                if name is None:
                    name, items = find_format(items)
                for item in items:
                    record = self._parse(item, name)
                    if record is not None:
                        yield name, record

    def _parse(self, item: Item, name: str) -> Record | None:
        if isinstance(item.value, Problem):
            self._skip([item.place], 0, item.value)
            return None
        fields = item.value
        # Those of a record that is not even translated.
        n_spans = label_studio.count_regions(fields) or count_spans(fields)
        try:
            fields = _TRANSLATE[name](fields, self.counts.left_out)
            n_spans = count_spans(fields)
            return parse(fields, item.place, self.labels)
        except Problem as problem:
            self._skip([item.place], n_spans, problem)
        except Ignored as reason:
            self.counts.ignored[str(reason)] += 1
            self.counts.ignored_spans += n_spans
        return None

    def _merge(self, records: Iterable[tuple[str, Record]]) -> Iterator[Record]:
        """Prodigy's answers about a text can be anywhere, so they come last."""
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

    def _skip(self, places: Sequence[str], n_spans: int, problem: Problem) -> None:
        n_before = self.counts.skipped.total()
        self.counts.skipped[problem.reason] += len(places)
        self.counts.skipped_spans += n_spans
        if n_before < MAX_REPORTS:
            self.report(f"{', '.join(places)}: {problem}")
        else:
            self._n_unreported += len(places)


def find_format(items: Iterator[Item]) -> tuple[str, Iterator[Item]]:
    """One of _TRANSLATE by the first object, and all items."""
    head = []
    for item in items:
        head.append(item)
        if isinstance(item.value, dict):
            break
    fields = next((item.value for item in head if isinstance(item.value, dict)), {})
    if "answer" in fields:
        name = "prodigy"
    elif "data" in fields and "text" not in fields and "tokens" not in fields:
        name = "label-studio"
    else:
        name = "jsonl"
    return name, chain(head, items)
