"""Records of votes in a file, by the hash of their texts."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from bcrf.io.json_objects import Problem
from spacy_bcrf.annotation.partial import Bounds
from spacy_bcrf.corpora.formats.votes import DocVotes, Flaws, Vote, read_votes
from spacy_bcrf.corpora.make_doc import find_bounds
from spacy_bcrf.corpora.record import RecordSpan


@dataclass
class Record:
    """The votes of a source on a text, without the document, which takes most of the memory.

    answers: several ones on equal texts. starts, ends: of tokens in characters, as far as spans
    begin or end there.
    """

    path: Path
    place: str
    n_tokens: int
    answers: list[DocVotes] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def add(self, found: DocVotes, doc: Doc) -> None:
        self.answers.append(found)
        spans = [(vote.start, vote.end) for vote in found.votes]
        for start, end in [*spans, *(found.regions or ())]:
            self.starts[start] = doc[start].idx
            self.ends[end] = doc[end - 1].idx + len(doc[end - 1])

    def fits(self, doc: Doc) -> bool:
        """Return whether a document with the same text has the same tokens, as far as it counts."""
        return (
            self.n_tokens == len(doc)
            and all(doc[i].idx == offset for i, offset in self.starts.items())
            and all(doc[i - 1].idx + len(doc[i - 1]) == end for i, end in self.ends.items())
        )

    @property
    def found(self) -> DocVotes:
        """The votes: several answers share the weight."""
        if len(self.answers) == 1:
            return self.answers[0]
        weights: dict[tuple[int, int, str], float] = defaultdict(float)
        for answer in self.answers:
            for start, end, label, weight in dict.fromkeys(answer.votes):
                weights[start, end, label] += weight / len(self.answers)
        regions = None
        if all(answer.regions is not None for answer in self.answers):
            regions = sorted({each for answer in self.answers for each in answer.regions or ()})
        return DocVotes([Vote(*key, min(w, 1.0)) for key, w in weights.items()], regions)


def read_records(
    path: Path, nlp: Language, flaws: Flaws, everywhere: bool
) -> dict[str, dict[bytes, Record]]:
    """Return the records of each source of a file, by the hash of their texts."""
    records: dict[str, dict[bytes, Record]] = {}
    for one in read_votes(path, nlp, flaws, everywhere):
        for name, found in one.by_source.items():
            new = Record(path, one.place, len(one.doc))
            records.setdefault(name, {}).setdefault(text_key(one.doc), new).add(found, one.doc)
    return records


def choose(
    records: Mapping[str, dict[bytes, Record]], annotator: str | None, path: Path
) -> dict[bytes, Record]:
    """Return the records of an annotator, None for the only one."""
    listed = ", ".join(map(repr, sorted(records)))
    if not records:
        raise ValueError(f"{path} has no record")
    if annotator is None and len(records) > 1:
        raise ValueError(f"{path} has {listed}; expected annotator, one of them")
    name = next(iter(records)) if annotator is None else annotator
    if name not in records:
        raise ValueError(f"{path} has no annotator {name!r} among {listed}")
    return records[name]


def find_records(
    records: Mapping[bytes, Record], flaws: Flaws
) -> Callable[[Sequence[Doc]], list[DocVotes | None]]:
    """Return the votes of records on documents with the same texts, whatever their tokens."""

    def look_up(doc: Doc) -> DocVotes | None:
        one = records.get(text_key(doc))
        if one is None:
            return None
        return one.found if one.fits(doc) else _realign(one, doc, flaws)

    return lambda docs: list(map(look_up, docs))


def _realign(record: Record, doc: Doc, flaws: Flaws) -> DocVotes:
    """Return the votes on the tokens of a document. ValueError if a span cuts them."""

    def place(start: int, end: int, label: str = "") -> Bounds:
        span = RecordSpan(record.starts[start], record.ends[end], (label,))
        return find_bounds(doc, span, False, flaws.align)

    found, votes = record.found, []
    for vote in found.votes:
        try:
            votes.append(Vote(*place(*vote[:3]), vote.label, vote.weight))
        except Problem as problem:
            flaws.add(record.path, record.place, problem)
            if not flaws.skip:
                raise ValueError(
                    f"{record.place}: {problem}, or --align contract or expand: the document with "
                    f"this text has {len(doc)} tokens, the record {record.n_tokens}"
                ) from None
    regions = found.regions and [place(*region) for region in found.regions]
    return DocVotes(votes, regions)


def text_key(doc: Doc) -> bytes:
    """Return what documents with the same text share."""
    return blake2b(doc.text.encode(), digest_size=12).digest()
