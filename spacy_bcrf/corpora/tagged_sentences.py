"""Records of the sentences that the readers of columns yield."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bcrf.io.json_objects import Problem
from bcrf.io.text import CorpusError, Line, scan_lines
from bcrf.schemes import read_spans
from spacy_bcrf.annotation.tag_forms import STANDARD, find_form

from .reading import Reading
from .record import Record, RecordSpan
from .sentence import Sentence

PREFIXED = ("B-PER",)
"""An example of tags that all need a prefix."""


def scan_rows(path: Path, advance: Callable[[int], object]) -> Iterator[Line]:
    """Yield the lines of a file. A line with a carriage return within has a problem."""
    for line in scan_lines(path, advance):
        if "\r" in line.text and line.problem is None:
            line = line._replace(
                problem="has a carriage return; expected line feeds at the ends of lines (tr '\\r' "
                "'\\n' converts a file)"
            )
        yield line


def skip_sentence(reading: Reading, error: CorpusError) -> None:
    """Leave out a malformed sentence. The error names file and line."""
    reading.counts.skip([str(error)], None, "malformed")
    reading.problems.add(str(error))


def make_records(
    sentences: Iterable[Sentence], reading: Reading, known: Collection[str]
) -> Iterator[Record]:
    """Yield a record of each `n_sents` sentences of a file, 0 for documents.

    known: entity tags of the file's first lines, which decide about their form.
    """
    group: list[Sentence] = []
    for sentence in _read_tags(sentences, reading, known):
        if reading.unspaced:
            sentence.spaces = sentence.spaces or [False] * len(sentence.words)
        if group and (sentence.starts_document or len(group) == reading.n_sents):
            yield from _check_labels(_join(group), reading)
            group = []
        group.append(sentence)
    if group:
        yield from _check_labels(_join(group), reading)


def _read_tags(
    sentences: Iterable[Sentence], reading: Reading, known: Collection[str]
) -> Iterator[Sentence]:
    """Yield the sentences of a file with IOB2 tags. The first starts a document."""
    starts_document = True
    form = find_form(known)
    for i, sentence in enumerate(sentences):
        layers = (sentence.entities, *sentence.layers)
        form = form or find_form([*known, *(tag for layer in layers for tag in layer)])
        normalize = (form or STANDARD).normalize
        if i == 0 and form is not None:
            reading.report_form(sentence.lines[0].path, form)
        sentence.starts_document |= starts_document
        try:
            sentence.entities, *sentence.layers = [
                reading.entity_tags.read(replace(sentence, entities=[*map(normalize, layer)]))
                for layer in layers
            ]
        except CorpusError as error:
            skip_sentence(reading, error)
            starts_document = sentence.starts_document
            continue
        for line in sentence.dropped:
            reading.problems.add(str(line))
        reading.counts.others["malformed words"] += len(sentence.dropped)
        reading.counts.others["empty nodes"] += sentence.empty_nodes
        starts_document = False
        yield sentence


def _check_labels(record: Record, reading: Reading) -> Iterator[Record]:
    found = {label for span in record.spans for label in span.labels}
    if reading.labels is not None and (unknown := found - reading.labels):
        names, known = (", ".join(sorted(some)) for some in (unknown, reading.labels))
        problem = Problem("unknown label", f"unknown {names}; expected {known}")
        reading.skip(record.places, record.n_spans, problem)
    else:
        yield record


def _join(sentences: Sequence[Sentence]) -> Record:
    words = [word for sentence in sentences for word in sentence.words]
    layers = [
        [tag for tags in layer for tag in tags]
        for layer in zip(*([each.entities, *each.layers] for each in sentences), strict=True)
    ]
    missing = [i for i, tags in enumerate(zip(*layers, strict=True)) if None in tags]
    spaces = None
    if all(sentence.spaces for sentence in sentences):
        # The text ends with the last word.
        spaces = [space for sentence in sentences for space in sentence.spaces or ()]
        spaces[-1] = False
    complete = len(missing) < len(words)
    return Record(
        [f"{sentence.lines[0].path}:{sentence.lines[0].number}" for sentence in sentences],
        None,
        words,
        [RecordSpan(a, b, (label,)) for tags in layers for a, b, label in read_spans(tags)],
        complete=complete,
        missing=[(i, i + 1) for i in missing] if complete else [],
        spaces=spaces,
        tags=[tag for sentence in sentences for tag in sentence.tags],
        pos=[pos for sentence in sentences for pos in sentence.pos],
        sent_starts=[i == 0 for sentence in sentences for i in range(len(sentence.words))],
    )
