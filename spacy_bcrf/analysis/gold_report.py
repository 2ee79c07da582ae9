"""What a component learns from the gold annotation of a corpus."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import minibatch, registry

from bcrf.chain.side_by_side import rows_by_chain
from spacy_bcrf.annotation.arrays import UNKNOWN, allowed_tags, doc_lengths
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.split_corpus import find_losses
from spacy_bcrf.pipeline.config_errors import naming
from spacy_bcrf.pipeline.gold import Gold, find_trimmed
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.training import note_cost

from .loading import find_labelers, find_reader, note_shared, read_corpus
from .result import Result

PARTS = ("train", "dev")
MAX_NAMED = 10
"""Largest number of infeasible documents that `GoldReport` names."""
COLUMNS = ("docs", "ambiguous", "rejected", "infeasible", "inside", "outside", "other", "missing")
"""Counts of a label of entities: documents with an entity, spans of partial annotation, infeasible
documents, and tokens: in an entity of the label, O, in another entity, and without annotation. The
label of spans of any label is empty."""


@dataclass
class GoldReport(Result):
    """Counts of gold annotation.

    docs = complete + partial + unannotated + infeasible. tokens = annotated + ambiguous (several
    tags are possible) + missing. Training treats infeasible documents as unannotated.
    labels: spans by label; a tag counts as a span of one token. lengths: spans by their length, in
    characters for words, else in tokens. overlapping: spans that overlap an earlier one.
    whitespace: spans with whitespace at an edge, which training trims. by_label: of entities, see
    `COLUMNS`. lost: spans that the tags of the component cannot express. named: the first
    infeasible, lost and whitespace ones, with index, start of the text and reason.
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
    by_label: dict[str, Counter[str]] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

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
            for span in find_trimmed(pipe.codec, example.reference):
                self.whitespace += 1
                where = f"{span.label_} {span.text!r} (tokens {span.start}:{span.end})"
                self._name("whitespace", example, where)
            self.docs += 1
            self._add_spans(pipe, pipe.codec.find_spans(example.reference))
        if pipe.codec.of_entities:
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
        count = self.by_label = self.by_label or {column: Counter() for column in COLUMNS}
        annotated, _ = codec.read_partial(examples)
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


def report_config(
    nlp: Language, where: str = "the config"
) -> tuple[dict[str, dict[str, GoldReport]], list[str]]:
    """Return the counts of a config's corpora by component and part, and problems of the config.

    Reads the corpora twice, a batch at a time.

    nlp: a pipeline that the config makes, not initialized. Its components get the labels of the
    train corpus. where: the config's name, for errors. ValueError names the config's section.
    """
    config, ours = nlp.config.interpolate(), find_labelers(nlp, (), where)
    parts = {part: partial(read_corpus, nlp, part) for part in PARTS}
    settings = config["initialize"]["components"]
    labels = {
        # A component from another pipeline has labels.
        name: pipe.labels
        or registry.resolve({"settings": settings.get(name, {})})["settings"].get("labels")
        for name, pipe in ours.items()
    }
    with naming(where):
        _prepare(ours, parts["train"](), labels)
    for name, pipe in ours.items():
        if not pipe.labels:
            raise ValueError(
                f"{where}: {find_reader(nlp, 'train')[0]}: no document has {pipe.codec.what}, "
                f"which [components.{name}] learns"
            )
    with naming(where):
        reports = _report(ours, parts)
    weights = config["training"]["score_weights"]
    notes = [note for name in ours for note in _check_weights(name, ours[name], weights)]
    notes += [note for name in ours for note in note_cost(name, ours[name].codec)]
    train, dev = ((example.reference for example in read()) for read in parts.values())
    losses = find_losses(config, nlp.vocab)
    return reports, [*losses, *notes, *note_shared(dev, train, "dev", "train")]


def report_corpora(
    nlp: Language, corpora: Mapping[str, Iterable[Doc]], labels: Sequence[str] = ()
) -> dict[str, dict[str, GoldReport]]:
    """Return the counts of corpora by component and corpus.

    nlp: a pipeline, not initialized. Its components get the labels of all corpora; those of
    entities get `labels` too. corpora: iterated twice.
    """

    def read(name: str) -> Iterator[Example]:
        return (Example(copy_words(doc, nlp.vocab), doc) for doc in corpora[name])

    ours = find_labelers(nlp)
    _prepare(ours, chain.from_iterable(map(read, corpora)), {}, labels)
    return _report(ours, {name: partial(read, name) for name in corpora})


def _prepare(
    pipes: Mapping[str, SequenceLabeler],
    examples: Iterable[Example],
    known: Mapping[str, Sequence[str] | None],
    more: Sequence[str] = (),
) -> None:
    """Set known labels, else those of examples, and `more` of entities, and choose layers."""
    found = {name: set[str]() for name in pipes}
    layers = {name: Counter[tuple[str, int]]() for name in pipes}
    for example in examples:
        for name, pipe in pipes.items():
            if known.get(name) is None:
                found[name] |= pipe.codec.find_labels(example.reference)
            layers[name].update(pipe.codec.count_layers(example))
    for name, pipe in pipes.items():
        further = more if pipe.codec.of_entities else ()
        for label in (*(known.get(name) or sorted(found[name])), *further):
            pipe.add_label(label)
        pipe.choose_layers(layers[name])


def _report(
    pipes: Mapping[str, SequenceLabeler], parts: Mapping[str, Callable[[], Iterable[Example]]]
) -> dict[str, dict[str, GoldReport]]:
    reports = {name: {part: GoldReport() for part in parts} for name in pipes}
    for part, read in parts.items():
        for batch in minibatch(read(), BATCH_SIZE):
            for name, pipe in pipes.items():
                reports[name][part].add(pipe, batch)
    return reports


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
