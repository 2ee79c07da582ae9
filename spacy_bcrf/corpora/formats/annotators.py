"""JSON lines with the entities of several annotators, or with weighted candidates.

- `text`, or `tokens`, or both, as in `jsonl`.
- `annotations`: objects with `annotator`, a name, and `spans`. Without it, `spans` of the record
  are the annotation of one annotator without a name.
- `spans`: as in `jsonl`, each with a `label` or a list of labels, and optionally a `weight` in
  (0, 1], the probability of the span with its label (of a list: of all labels together, shared
  equally). Overlapping spans of an annotator exclude each other. The rest of the probability is
  that there is none of them.
- `regions`: beside `spans`, objects with `start` and `end`: where the annotator looked, by default
  everywhere.

A text that an annotator did not see has no entry of this annotator. Without entities, an entry has
an empty list of spans.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from bcrf.io.json_objects import Problem, read_objects
from spacy_bcrf.annotation.partial import Bounds
from spacy_bcrf.corpora.make_doc import find_bounds, tokenize
from spacy_bcrf.corpora.record import RecordSpan
from spacy_bcrf.corpora.time_limit import SECONDS, TookTooLongError, time_limit, watch_tokenizer

from .jsonl import read_record


class Candidate(NamedTuple):
    """A possible entity: first token, one past the last, label and probability."""

    start: int
    end: int
    label: str
    weight: float


class Found(NamedTuple):
    """What a source says of a document. regions: where it looked, None for everywhere."""

    candidates: Sequence[Candidate]
    regions: Sequence[Bounds] | None = None


class Annotated(NamedTuple):
    """A document without annotation, and what each annotator says of it, by name."""

    place: str
    doc: Doc
    by_annotator: dict[str, Found]


def read_annotators(path: Path, nlp: Language) -> Iterator[Annotated]:
    """Yield the documents of a JSON lines file. ValueError names file, line and problem."""
    watch_tokenizer(nlp)
    for place, value in read_objects(path):
        try:
            if isinstance(value, Problem):
                raise value
            yield _read(value, str(place), nlp)
        except Problem as problem:
            raise ValueError(f"{place}: {problem}") from None


def _read(fields: dict[str, Any], place: str, nlp: Language) -> Annotated:
    content: dict[str, Any] = {key: fields[key] for key in ("text", "tokens") if key in fields}
    try:
        with time_limit(SECONDS, by_signal=False):
            doc = tokenize(read_record(content, place), nlp)
    except TookTooLongError as error:
        raise Problem("not tokenized", f"the tokenizer {error}") from None
    entries = fields.get("annotations")
    if entries is None:
        if not isinstance(fields.get("spans"), list):
            raise Problem("no annotation", 'no "annotations" and no "spans"')
        entries = [{**fields, "annotator": ""}]
    elif not isinstance(entries, list) or not entries:
        raise Problem("wrong type", '"annotations" must be a list with an entry or more')

    def locate(spans: list[Any]) -> Iterator[tuple[RecordSpan, Bounds]]:
        record = read_record({**content, "spans": spans}, place)
        for span in record.spans:
            yield span, find_bounds(doc, record.trim(span), record.text is None)

    by_annotator: dict[str, Found] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("annotator"), str):
            raise Problem("wrong type", 'each of "annotations" needs an "annotator", a string')
        name, spans, regions = entry["annotator"], entry.get("spans"), entry.get("regions")
        if not isinstance(spans, list):
            raise Problem("wrong type", f"the annotation of {name!r} needs a list of spans")
        if name in by_annotator:
            raise Problem("contradiction", f"the annotator {name!r} has two entries")
        found: list[Candidate] = []
        for (span, bounds), raw in zip(locate(spans), spans, strict=True):
            if not span.labels:
                raise Problem("wrong type", f"a span of {name!r} has no label; expected one")
            weight = _read_weight(raw) / len(span.labels)
            found += [Candidate(*bounds, label, weight) for label in span.labels]
        if regions is not None:
            if not isinstance(regions, list) or not all(isinstance(x, dict) for x in regions):
                raise Problem(
                    "wrong type",
                    f'the regions of {name!r} must be a list of objects with "start" and "end"',
                )
            regions = [bounds for _, bounds in locate([{**x, "label": None} for x in regions])]
        by_annotator[name] = Found(found, regions)
    return Annotated(place, doc, by_annotator)


def _read_weight(span: dict[str, Any]) -> float:
    weight = span.get("weight", 1.0)
    is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not is_number or not 0 < weight <= 1:
        raise Problem("wrong type", f'"weight" must be above 0 and at most 1, got {weight!r}')
    return float(weight)
