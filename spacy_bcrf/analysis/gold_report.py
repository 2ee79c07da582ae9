"""What a component learns from the gold annotation of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import minibatch, registry

from bcrf.chain.side_by_side import rows_by_chain
from spacy_bcrf.annotation.arrays import UNKNOWN, doc_lengths
from spacy_bcrf.pipeline.config_errors import naming
from spacy_bcrf.pipeline.gold import Gold
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

from .loading import find_labelers, find_reader, read_corpus
from .result import Result

PARTS = ("train", "dev")
MAX_NAMED = 10
"""Largest number of infeasible documents that `GoldReport` names."""


@dataclass
class GoldReport(Result):
    """Counts of gold annotation.

    docs = complete + partial + unannotated + infeasible. Training treats infeasible documents as
    unannotated. tokens = annotated + ambiguous (several tags are possible) + missing; tokens of
    infeasible documents are missing.
    labels: spans by label; a tag counts as a span of one token. lengths: spans by their length, in
    characters for words and in tokens otherwise. overlapping: spans that overlap an earlier one.
    whitespace: spans that start or end on whitespace. lost: spans that the tags of the component
    cannot express; training leaves them out. named, named_lost: the first infeasible documents and
    lost spans, each with the index and the start of the text, and the reason.
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
    labels: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    named_lost: list[str] = field(default_factory=list)

    def length_quantile(self, share: float) -> int:
        """Return the least length that this share of the spans does not exceed; 0 without spans."""
        total, seen = self.lengths.total(), 0
        for length, count in sorted(self.lengths.items()):
            seen += count
            if seen >= share * total:
                return length
        return 0

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
                self._name(self.named, example, gold.problems[i])
            else:
                self._add_doc(n_possible[start:end], i in has_rejection)
            for problem in pipe.codec.find_lost(example):
                self.lost += 1
                self._name(self.named_lost, example, problem)
            self.docs += 1
            self._add_spans(pipe, pipe.codec.find_spans(example.reference))
        self.tokens += int(bounds[-1])
        self.annotated += int((n_possible == 1).sum())
        self.missing += int((n_possible == 0).sum())
        self.ambiguous = self.tokens - self.annotated - self.missing

    def _add_doc(self, n_possible: NDArray[np.integer], has_rejection: bool) -> None:
        if (n_possible == 1).all():
            self.complete += 1
        elif not n_possible.any() and not has_rejection:
            self.unannotated += 1
        else:
            self.partial += 1

    def _name(self, named: list[str], example: Example, problem: str) -> None:
        if len(named) < MAX_NAMED:
            named.append(f"document {self.docs}, {example.reference.text[:40]!r}: {problem}")

    def _add_spans(self, pipe: SequenceLabeler, spans: Sequence[Span]) -> None:
        covered = 0
        for span in sorted(spans, key=lambda span: span.start):
            self.labels[span.label_] += 1
            if (length := pipe.codec.length(span)) is not None:
                self.lengths[length] += 1
            self.overlapping += span.start < covered
            self.whitespace += bool(len(span) and (span[0].is_space or span[-1].is_space))
            covered = max(covered, span.end)

    def to_json(self) -> dict[str, Any]:
        """Return all counts as JSON values."""
        return super().to_json() | {
            "labels": dict(sorted(self.labels.items())),
            "lengths": {str(length): n for length, n in sorted(self.lengths.items())},
        }


def report_gold(pipe: SequenceLabeler, examples: Sequence[Example]) -> GoldReport:
    """Return the counts of a corpus for a component. O(N T) for complete annotation."""
    found = GoldReport()
    for batch in minibatch(examples, BATCH_SIZE):
        found.add(pipe, batch)
    return found


def report_config(
    nlp: Language, where: str = "the config"
) -> tuple[dict[str, dict[str, GoldReport]], list[str]]:
    """Return the counts of a config's corpora by component and part, and problems of the config.

    nlp: a pipeline that the config makes, not initialized. Its components get the labels of the
    train corpus. where: the config's name, for errors. ValueError names the config's section.
    """
    config, ours = nlp.config.interpolate(), find_labelers(nlp, (), where)
    with naming(where):
        corpora = {part: list(read_corpus(nlp, part)) for part in PARTS}
    reports = {}
    for name, pipe in ours.items():
        # A component from another pipeline has labels.
        if not pipe.labels:
            settings = config["initialize"]["components"].get(name, {})
            labels = registry.resolve({"settings": settings})["settings"].get("labels")
            found = (pipe.codec.find_labels(example.reference) for example in corpora["train"])
            for label in sorted(set().union(*found)) if labels is None else labels:
                pipe.add_label(label)
        if not pipe.labels:
            raise ValueError(
                f"{where}: {find_reader(nlp, 'train')[0]}: no document has {pipe.codec.what}, "
                f"which [components.{name}] learns"
            )
        layers = Counter[tuple[str, int]]()
        for example in corpora["train"]:
            layers.update(pipe.codec.count_layers(example))
        pipe.choose_layers(layers)
        reports[name] = {part: report_gold(pipe, examples) for part, examples in corpora.items()}
    weights = config["training"]["score_weights"]
    return reports, [note for name in ours for note in _check_weights(name, ours[name], weights)]


def _check_weights(
    name: str, pipe: SequenceLabeler, weights: dict[str, float | None]
) -> Iterator[str]:
    """Yield a note if the score of a training counts one that a tagger does not have."""
    attribute = str(pipe.cfg.get("attribute"))
    scores = {"tag": "tag_acc", "pos": "pos_acc"}
    own = scores.pop(attribute, None)
    for other in scores.values() if own in weights else ():
        if weights.get(other):
            yield (
                f"[training.score_weights] {other} = {weights[other]}: [components.{name}] with "
                f'attribute = "{attribute}" has no such score, so SCORE never reaches 1. Set '
                f"{own} = 1.0 and {other} = null"
            )


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
