"""JSON lines with the votes of sources, such as annotators or language models.

- `text`, or `tokens`, or both, as in `jsonl`.
- `annotations`: objects with `annotator`, the name of a source, and `spans`. Without it, the
  `spans` of the record are the votes of one source without a name.
- `spans`: as in `jsonl`, each with a `label` or a list of labels, and optionally a `weight` in
  (0, 1], the probability of the span with its label (of a list: of all labels together, shared
  equally). Overlapping spans of a source exclude each other. The rest of the probability is that
  there is none of them.
- `regions`: beside `spans`, objects with `start` and `end`: where the source looked, by default
  everywhere.

A source has no entry for a text that it did not see, and an empty list of spans for a text in
which it found nothing. `spans` may be the answer of a language model, a string with JSON in it, and
a span may have its `text` instead of right offsets, see `answers`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from bcrf.io.json_objects import Problem, read_objects
from spacy_bcrf.annotation.partial import Bounds
from spacy_bcrf.corpora.make_doc import Align, find_bounds, tokenize
from spacy_bcrf.corpora.record import RecordSpan
from spacy_bcrf.corpora.time_limit import SECONDS, TookTooLongError, time_limit, watch_tokenizer

from .answers import locate, read_answer
from .jsonl import read_record

N_NAMED = 20
"""Number of flaws that an error lists."""


class Vote(NamedTuple):
    """A span that a source proposes: first token, one past the last, label and probability."""

    start: int
    end: int
    label: str
    weight: float


class DocVotes(NamedTuple):
    """The votes of a source on a document. regions: where it looked, None for everywhere."""

    votes: Sequence[Vote]
    regions: Sequence[Bounds] | None = None


class VotedDoc(NamedTuple):
    """A document without annotation, and the votes of each source, by its name."""

    place: str
    doc: Doc
    by_source: dict[str, DocVotes]


@dataclass
class Flaws:
    """What is wrong with votes, over all files, and what becomes of it.

    align: of spans that cut tokens. skip: leaves out a span or record with a flaw, and counts it.
    """

    align: Align = "strict"
    skip: bool = False
    found: list[str] = field(default_factory=list)
    n_skipped: Counter[tuple[Path, str]] = field(default_factory=Counter)
    n_located: Counter[Path] = field(default_factory=Counter)

    def add(self, path: Path, place: str, problem: Problem) -> None:
        self.n_skipped[path, problem.reason] += 1
        if not self.skip:
            self.found.append(f"{place}: {problem}")

    def check(self) -> None:
        """Raise ValueError for all flaws of all files, unless they are skipped."""
        if not self.found:
            return
        more = len(self.found) - N_NAMED
        lines = [*self.found[:N_NAMED], *([f"and {more:,} more"] if more > 0 else [])]
        if len(self.found) > 1:
            lines.insert(0, f"{len(self.found):,} flaws:")
        raise ValueError("\n".join(lines))

    def notes(self) -> list[str]:
        """Return a note for each kind of flaw of a file."""
        skipped = [
            f"{path}: left out {n:,} spans or records: {reason}"
            for (path, reason), n in self.n_skipped.items()
        ]
        return skipped + [
            f"{path}: {n:,} spans had no or wrong offsets, and were found by their text"
            for path, n in self.n_located.items()
            if n
        ]


def read_votes(
    path: Path, nlp: Language, flaws: Flaws | None = None, everywhere: bool = False
) -> Iterator[VotedDoc]:
    """Yield the documents of a JSON lines file, as far as they have no flaw.

    flaws: gets what is wrong; without it, ValueError names all of the file. everywhere: see
    `answers.locate`.
    """
    watch_tokenizer(nlp)
    own = flaws or Flaws()
    for place, value in read_objects(path):
        try:
            if isinstance(value, Problem):
                raise value
            yield _Reader(value, str(place), nlp, path, own, everywhere).read()
        except Problem as problem:
            own.add(path, place, problem)
    if flaws is None:
        own.check()


class _Reader:
    """Read the votes of one record."""

    def __init__(
        self,
        fields: dict[str, Any],
        place: str,
        nlp: Language,
        path: Path,
        flaws: Flaws,
        everywhere: bool,
    ) -> None:
        self.fields, self.place, self.path = fields, place, path
        self.flaws, self.everywhere = flaws, everywhere
        self.content: dict[str, Any] = {
            key: fields[key] for key in ("text", "tokens") if key in fields
        }
        try:
            with time_limit(SECONDS, by_signal=False):
                self.doc = tokenize(read_record(self.content, place), nlp)
        except TookTooLongError as error:
            raise Problem("not tokenized", f"the tokenizer {error}") from None

    def read(self) -> VotedDoc:
        entries = self.fields.get("annotations")
        if entries is None:
            if not isinstance(self.fields.get("spans"), list | str):
                raise Problem("no annotation", 'no "annotations" and no "spans"')
            entries = [{**self.fields, "annotator": ""}]
        elif not isinstance(entries, list) or not entries:
            raise Problem("wrong type", '"annotations" must be a list with an entry or more')
        by_source: dict[str, DocVotes] = {}
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("annotator"), str):
                raise Problem("wrong type", 'each of "annotations" needs an "annotator", a string')
            if entry["annotator"] in by_source:
                raise Problem(
                    "contradiction", f"the annotator {entry['annotator']!r} has two entries"
                )
            by_source[entry["annotator"]] = self._read_entry(entry)
        return VotedDoc(self.place, self.doc, by_source)

    def _read_entry(self, entry: dict[str, Any]) -> DocVotes:
        name, spans, regions = entry["annotator"], entry.get("spans"), entry.get("regions")
        if isinstance(spans, str):
            spans = read_answer(spans)
        if not isinstance(spans, list):
            raise Problem("wrong type", f"the annotation of {name!r} needs a list of spans")
        votes: list[Vote] = []
        for raw in spans:
            try:
                votes += self._read_span(raw, name)
            except Problem as problem:
                self.flaws.add(self.path, self.place, problem)
        if regions is not None:
            if not isinstance(regions, list) or not all(isinstance(x, dict) for x in regions):
                raise Problem(
                    "wrong type",
                    f'the regions of {name!r} must be a list of objects with "start" and "end"',
                )
            regions = [self._place({**x, "label": None})[1] for x in regions]
        return DocVotes(votes, regions)

    def _read_span(self, raw: Any, name: str) -> list[Vote]:
        places = (
            list(locate(raw, self.doc.text, self.everywhere)) if "text" in self.content else [raw]
        )
        votes = []
        for one in places:
            span, bounds = self._place(one)
            if not span.labels:
                raise Problem("wrong type", f"a span of {name!r} has no label; expected one")
            weight = _read_weight(one) / len(span.labels)
            votes += [Vote(*bounds, label, weight) for label in span.labels]
        self.flaws.n_located[self.path] += int(places != [raw])
        return votes

    def _place(self, span: Any) -> tuple[RecordSpan, Bounds]:
        record = read_record({**self.content, "spans": [span]}, self.place)
        (only,) = record.spans
        try:
            return only, find_bounds(
                self.doc, record.trim(only), record.text is None, self.flaws.align
            )
        except Problem as problem:
            if problem.reason == "cut tokens":
                problem.args = (f"{problem}, or a tokenizer that fits, or `aggregate --align`",)
            raise


def _read_weight(span: dict[str, Any]) -> float:
    weight = span.get("weight", 1.0)
    is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not is_number or not 0 < weight <= 1:
        raise Problem("wrong type", f'"weight" must be above 0 and at most 1, got {weight!r}')
    return float(weight)
