"""Counts of the gold annotation that a component learns, and their tables."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Span
from spacy.training import Example
from wasabi import table

from bcrf.chain.side_by_side import rows_by_chain
from spacy_bcrf.annotation.arrays import UNKNOWN, allowed_tags, doc_lengths
from spacy_bcrf.annotation.token_differences import TokenDifferences
from spacy_bcrf.pipeline.codecs import Codec
from spacy_bcrf.pipeline.codecs.partial_gold import read_partial
from spacy_bcrf.pipeline.gold import Gold, find_trimmed
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.result import Result

MAX_NAMED = 10
"""Largest number of infeasible documents that `GoldReport` names."""
COUNTS = ("docs", "ambiguous", "rejected", "infeasible", "inside", "outside", "other", "missing")
"""Counts of a label of entities: documents with an entity, spans of partial annotation, infeasible
documents, and tokens: in an entity of the label, O, in another entity, and without annotation. The
label of spans of any label is empty."""
DOCS = ("docs", "complete", "partial", "unannotated", "infeasible")
TOKENS = ("tokens", "annotated", "ambiguous", "missing")
LABEL = ("label", "docs", "entities", "ambiguous", "rejected", "forbidden")
LABEL_TOKENS = ("tokens in", "O", "other", "missing")
WARNINGS = {
    "overlapping": "spans overlap an earlier span. Only bcrf_spans learns all of them",
    "whitespace": "spans start or end on whitespace. Training trims them. The first:",
    "lost": "spans are in no layer. Training leaves them out. The first:",
    "misaligned": "spans cut tokens. Training leaves them out, and scores count them as missed. "
    "See `convert --tokenizer`. The first:",
    "infeasible": "documents have forbidden annotation. Training treats them as unannotated. The "
    "first:",
}
"""Counts of a report that are problems, and what they mean."""


@dataclass
class GoldReport(Result):
    """Counts of gold annotation.

    docs = complete + partial + unannotated + infeasible. tokens = annotated + ambiguous (several
    tags are possible) + missing. Training treats infeasible documents as unannotated.
    labels: spans by label; a tag counts as a span of one token. lengths: spans by their length, in
    characters for words, else in tokens. overlapping: spans that overlap an earlier one.
    whitespace: spans with whitespace at an edge, which training trims. by_label: of entities, see
    `COUNTS`. lost: spans that the tags of the component cannot express. misaligned: spans that cut
    tokens. named: the first infeasible, lost, misaligned and whitespace ones, with index, start of
    the text and reason. differences: of gold tokens from the pipeline's.
    """

    docs: int = 0
    complete: int = 0
    partial: int = 0
    unannotated: int = 0
    infeasible: int = 0
    tokens: int = 0
    annotated: int = 0
    ambiguous: int = 0
    missing: int = 0
    overlapping: int = 0
    whitespace: int = 0
    lost: int = 0
    misaligned: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    by_label: dict[str, Counter[str]] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    differences: TokenDifferences = field(default_factory=TokenDifferences)

    def length_quantile(self, share: float) -> int:
        """Return the least length that this share of the spans does not exceed; 0 without spans."""
        ordered = sorted(self.lengths.elements())
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0

    def add(self, pipe: SequenceLabeler, examples: Sequence[Example]) -> None:
        """Count a batch of examples for a component. Its labels must be set."""
        gold = pipe.read_gold(examples)
        lengths = doc_lengths([example.predicted for example in examples])
        bounds = np.cumsum([0, *lengths])
        n_possible = _count_possible(pipe, gold, lengths)
        has_rejection = {rejection.sequence // gold.n_chains for rejection in gold.rejections}
        for i, ((start, end), example) in enumerate(zip(pairwise(bounds), examples, strict=True)):
            if i in gold.problems:
                self.infeasible += 1
                self._name("infeasible", example, gold.problems[i])
            elif (n_possible[start:end] == 1).all():
                self.complete += 1
            elif not n_possible[start:end].any() and i not in has_rejection:
                self.unannotated += 1
            else:
                self.partial += 1
            for problem in pipe.codec.find_lost(example):
                self.lost += 1
                self._name("lost", example, problem)
            for start, stop, label in pipe.codec.find_misaligned(example.reference):
                self.misaligned += 1
                where = f"{label} {example.reference.text[start:stop]!r} ({start}:{stop})"
                self._name("misaligned", example, where)
            for span in find_trimmed(pipe.codec, example.reference):
                self.whitespace += 1
                where = f"{span.label_} {span.text!r} (tokens {span.start}:{span.end})"
                self._name("whitespace", example, where)
            self.docs += 1
            if pipe.codec.unit != "word":
                self.differences.add(example.predicted, example.reference)
            self._add_spans(pipe, pipe.codec.find_spans(example.reference))
        if has_partial_spans(pipe.codec):
            self._add_labels(pipe, examples, gold)
        self.tokens += int(bounds[-1])
        self.annotated += int((n_possible == 1).sum())
        self.missing += int((n_possible == 0).sum())
        self.ambiguous = self.tokens - self.annotated - self.missing

    def _name(self, kind: str, example: Example, problem: str) -> None:
        if len(named := self.named[kind]) < MAX_NAMED:
            named.append(f"document {self.docs}, {example.reference.text[:40]!r}: {problem}")

    def _add_spans(self, pipe: SequenceLabeler, spans: Sequence[Span]) -> None:
        covered = 0
        for span in sorted(spans, key=lambda span: span.start):
            self.labels[span.label_] += 1
            if (length := pipe.codec.length(span)) is not None:
                self.lengths[length] += 1
            self.overlapping += span.start < covered
            covered = max(covered, span.end)

    def _add_labels(self, pipe: SequenceLabeler, examples: Sequence[Example], gold: Gold) -> None:
        codec, ops = pipe.codec, pipe.model.ops
        count = self.by_label = self.by_label or {column: Counter() for column in COUNTS}
        annotated, _ = read_partial(codec.partial, examples)
        for i, example in enumerate(examples):
            entities = {span.label_ for span in codec.find_spans(example.reference)}
            count["docs"].update(entities)
            for column, name in (("ambiguous", "ambiguous"), ("rejected", "incorrect")):
                spans = getattr(annotated[i], name) if i in annotated else {}
                found = [label for labels in spans.values() for label in labels]
                count[column].update(found)
                entities.update(found)
            if i in gold.problems:
                count["infeasible"].update(entities)
        allowed = allowed_tags(ops.to_numpy(gold.tags), codec.n_tags)
        shape = len(allowed), len(codec.labels), codec.tags_per_label
        possible, outside = allowed[:, 1:].reshape(shape).any(axis=2), allowed[:, :1]
        inside = possible & ~outside & (possible.sum(axis=1, keepdims=True) == 1)
        for column, tokens in {
            "inside": inside,
            "outside": ~possible & outside,
            "other": ~possible & ~outside,
            "missing": possible & ~inside,
        }.items():
            count[column].update(dict(zip(codec.labels, tokens.sum(axis=0).tolist(), strict=True)))

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {
            "labels": dict(sorted(self.labels.items())),
            "lengths": {str(length): n for length, n in sorted(self.lengths.items())},
        }


def has_partial_spans(codec: Codec) -> bool:
    """Return whether gold can annotate a part of flat spans, as it can of entities."""
    return codec.partial is not None and codec.spans is not None and codec.layered is None


def _count_possible(
    pipe: SequenceLabeler, gold: Gold, lengths: NDArray[np.int32]
) -> NDArray[np.integer]:
    """Return the number of possible tags (N,) of each token, 0 if it is unannotated."""
    ops: Any = pipe.model.ops
    tags = ops.to_numpy(gold.tags)
    if tags.dtype == bool:
        found = np.where(tags.all(axis=1), 0, tags.sum(axis=1))
    else:
        found = (tags != UNKNOWN).astype("int64")
    if gold.n_chains == 1:
        return found
    # A token is annotated, or missing, if it is so in all chains.
    by_token = found[rows_by_chain(lengths, gold.n_chains).argsort()].reshape(-1, gold.n_chains)
    return np.where((by_token == by_token[:, :1]).all(axis=1), by_token[:, 0], 2)


def show(name: str, reports: Mapping[str, GoldReport]) -> Iterator[str]:
    """Yield the tables and the warnings of a component. reports: by part."""
    yield f"[components.{name}]"
    for columns in (DOCS, TOKENS):
        rows = [
            (part, *(f"{getattr(found, column):,}" for column in columns))
            for part, found in reports.items()
        ]
        header = ("", *columns[:-1], "forbidden" if columns is DOCS else columns[-1])
        yield _table(header, rows)
    first, *others = reports.values()
    rows = [
        (label or "(none)", *(f"{found.labels[label]:,}" for found in reports.values()))
        for label in sorted({label for found in reports.values() for label in found.labels})
    ]
    if rows and (others or not first.by_label):
        yield _table(("label", *reports), rows)
    for part, found in reports.items():
        if found.by_label:
            yield from _show_labels(part, found)
        if found.lengths:
            yield (
                f"{part}: spans of {min(found.lengths)} to {max(found.lengths)}; half of them up "
                f"to {found.length_quantile(0.5)}, 95% up to {found.length_quantile(0.95)}"
            )
    if "dev" in reports and (only := reports["dev"].labels.keys() - reports["train"].labels.keys()):
        yield f"Warning: labels that only dev has: {', '.join(sorted(only))}"
    for part, found in reports.items():
        for kind, what in WARNINGS.items():
            if n := getattr(found, kind):
                yield f"Warning: {part}: {n:,} {what}"
                yield from (f"- {problem}" for problem in found.named.get(kind, ()))
    yield ""


def _show_labels(part: str, found: GoldReport) -> Iterator[str]:
    """Yield the table of the labels of entities, and a warning if no token can be outside."""
    count = found.by_label
    docs, *spans, inside, outside, other, missing = count.values()
    tokens = inside, outside, other, missing
    rows = [
        (
            label or "(any)",
            *(f"{counter[label]:,}" for counter in (docs, found.labels, *spans)),
            # Spans of any label have no counts of tokens.
            *(f"{counter[label]:,}" if label in inside else "" for counter in tokens),
        )
        for label in sorted(set().union(*count.values()), key=lambda label: (not label, label))
    ]
    yield f"{part}:"
    yield _table((*LABEL, *LABEL_TOKENS), rows)
    if never := [label for label, n in sorted(outside.items()) if not n]:
        yield (
            f"Warning: {part}: no token is annotated as outside of {', '.join(never)}. "
            "See entity_ratio of bcrf_ner"
        )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    aligns = ("l", *"r" * (len(header) - 1))
    return table(rows, header=header, divider=True, aligns=aligns, spacing=2)
