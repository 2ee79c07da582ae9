"""`debug`: what components learn from the gold annotation of corpora."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_config, load_model_from_config, minibatch, registry
from spacy.vocab import Vocab

from bcrf.chain.potentials import counted, shorten
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.inspection import Inspection
from spacy_bcrf.corpora.tokenization import note_split
from spacy_bcrf.loading import find_labelers, find_reader, read_corpus
from spacy_bcrf.pipeline.config_errors import naming
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.scorers import note_scorer
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.training import note_cost
from spacy_bcrf.promises.seen import note_shared
from spacy_bcrf.readers.doc_files import read_docs
from spacy_bcrf.readers.split_corpus import find_losses
from spacy_bcrf.result import Result

from .first_config import FACTORIES, find_annotated
from .gold_report import GoldReport, has_partial_spans, show

PARTS = ("train", "dev")

Reports = dict[str, dict[str, GoldReport]]
"""Counts by component, and by part or file."""


@dataclass(repr=False)
class Debugged(Result):
    """Counts of gold annotation.

    reports: by component, and by part of a config or by file. notes: problems. corpora: counts of
    all files together, None for a config.
    """

    reports: Reports
    notes: list[str]
    corpora: Inspection | None = None

    @property
    def has_infeasible(self) -> bool:
        """Whether a document has annotation that its component forbids."""
        return any(found.infeasible for each in self.reports.values() for found in each.values())

    def to_json(self) -> Any:
        """Return the counts by component and part."""
        return {
            name: {part: found.to_json() for part, found in each.items()}
            for name, each in self.reports.items()
        }

    def lines(self) -> Iterator[str]:
        """Yield the counts of all files, and the tables of each component."""
        if self.corpora is not None:
            yield from _describe(self.corpora)
        for name, reports in self.reports.items():
            yield from show(name, reports)


def debug(
    source: str | Path,
    *others: str | Path,
    labels: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
) -> Debugged:
    """Count the gold annotation of a training config's corpora, or of corpora.

    source, others: one training config, or .spacy files and folders. Corpora get the components
    that `init` would choose. labels: expected labels of corpora. overrides: settings of the config.
    ValueError names the file, or the section of the config.
    """
    source = Path(source)
    if is_corpus(source):
        return _debug_files([source, *map(Path, others)], labels)
    if not source.is_file() or source.suffix != ".cfg":
        problem = "" if source.is_file() else "found no such file; "
        expected = "expected a training config (.cfg) or .spacy files, which `convert` writes"
        raise ValueError(f"{source}: {problem}{expected}")
    with naming(source):
        nlp = load_model_from_config(
            load_config(source, overrides=dict(overrides or {})), auto_fill=True
        )
        nlp.config.interpolate()
    return Debugged(*report_config(nlp, str(source)))


def is_corpus(path: Path) -> bool:
    """Return whether an input is a folder or a .spacy file, not a config."""
    return path.is_dir() or path.suffix == ".spacy"


@dataclass
class _Corpus:
    """Documents that each iteration reads again, one file in memory at a time."""

    path: Path
    vocab: Vocab

    def __iter__(self) -> Iterator[Doc]:
        return read_docs(self.path, self.vocab)


def _debug_files(files: Sequence[Path], labels: Sequence[str]) -> Debugged:
    nlp = spacy.blank("xx")
    corpora = {str(path): _Corpus(path, nlp.vocab) for path in files}
    found = Inspection()
    for doc in chain(*corpora.values()):
        found.add(doc)
    if not found.docs:
        raise ValueError(f"{' '.join(corpora)}: has no documents")
    for name in find_annotated(found):
        nlp.add_pipe(FACTORIES[name], name)
    first, *others = corpora.items()
    notes = [note for name, docs in others for note in note_shared(docs, first[1], name, first[0])]
    notes += note_split(corpora)
    if labels and (unknown := sorted(found.labels - {*labels})):
        notes.append(f"unexpected labels: {', '.join(unknown)}")
    reports = report_corpora(nlp, corpora, labels) if nlp.pipe_names else {}
    labelers = find_labelers(nlp) if nlp.pipe_names else {}
    notes += [note for name in labelers for note in note_cost(name, labelers[name].codec)]
    return Debugged(reports, notes, found)


def _describe(found: Inspection) -> Iterator[str]:
    yield f"{counted(found.docs, 'doc')}, {counted(found.tokens, 'token')}"
    for name, tags in found.tags.items():
        if tags.values or tags.allowed:
            yield (
                f"{name}: {counted(tags.values.total(), 'token')} annotated with "
                f"{counted(len(tags.values), 'value')}, {tags.missing:,} missing; "
                f"{tags.allowed:,} with several allowed values"
            )
    for key, labels_of in sorted(found.groups.items()):
        counts = [f"{label or '(any)'} {n:,}" for label, n in labels_of.most_common()]
        named = f": {shorten(counts)}" * bool(counts)
        yield f"spans[{key!r}]: {counted(labels_of.total(), 'span')}{named}"
    if not found.has_entities:
        yield f"entities: {counted(found.tokens, 'token')} missing"


def report_config(nlp: Language, where: str = "the config") -> tuple[Reports, list[str]]:
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
    notes += [
        note
        for part, found in next(iter(reports.values())).items()
        for note in found.differences.note(part)
    ]
    for name, of_part in reports.items():
        n_cut = sum(found.misaligned for found in of_part.values())
        notes += note_scorer(name, ours[name].scorer, n_cut)
    train, dev = ((example.reference for example in read()) for read in parts.values())
    losses = find_losses(config, nlp.vocab)
    return reports, [*losses, *notes, *note_shared(dev, train, "dev", "train")]


def report_corpora(
    nlp: Language, corpora: Mapping[str, Iterable[Doc]], labels: Sequence[str] = ()
) -> Reports:
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
        further = more if has_partial_spans(pipe.codec) else ()
        for label in (*(known.get(name) or sorted(found[name])), *further):
            pipe.add_label(label)
        pipe.choose_layers(layers[name])


def _report(
    pipes: Mapping[str, SequenceLabeler], parts: Mapping[str, Callable[[], Iterable[Example]]]
) -> Reports:
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
