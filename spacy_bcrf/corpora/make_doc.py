"""Conversion of a `Record` to a Doc."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

from spacy.tokens import Doc, Span
from spacy.util import get_words_and_spaces
from spacy.vocab import Vocab

from bcrf.io.json_objects import Problem
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.annotation.misaligned import MisalignedSpan, add_misaligned
from spacy_bcrf.annotation.partial import AMBIGUOUS, INCORRECT, Bounds

from .record import Record, RecordSpan
from .sentence import UNSPACED

Align = Literal["strict", "contract", "expand", "split"]
"""What becomes of a span that cuts a token: it is left out, contracted to whole tokens, expanded to
them, or its tokens are split."""

Labeled = tuple[Bounds, tuple[str, ...]]
"""Token bounds and possible labels, none for any."""


class Tokenizer(Protocol):
    """The part of a pipeline that a record needs."""

    @property
    def lang(self) -> str | None: ...

    @property
    def vocab(self) -> Vocab: ...

    def make_doc(self, text: str) -> Doc: ...


class Made(NamedTuple):
    """A Doc, the numbers of its spans and of trimmed ones, and a problem for each span it lacks."""

    doc: Doc
    entities: int
    ambiguous: int
    rejected: int
    left_out: list[Problem]
    n_trimmed: int


def make_doc(
    record: Record, nlp: Tokenizer, spans_key: str | None = None, align: Align = "strict"
) -> Made:
    """Tokenize a record and set its entities and its partial annotation.

    nlp: of texts without tokens. spans_key: the group of the spans, which may overlap; None for
    entities. align: for spans that cut tokens. Problem if the tokens are not in the text. A span
    that does not fit is left out, and its tokens are missing; in a span group, it may be there or
    not. A span of one label that cuts tokens is kept beside them, see `annotation.misaligned`. If
    entities overlap, the longest stays, then the first. A span that is both an entity and
    rejected is left out.
    """
    doc = tokenize(record, nlp)
    if align == "split" and record.text is not None:
        doc = _split(doc, {cut for span in record.spans + record.rejected for cut in span[:2]})
    placing = _Placing(doc, record)
    # The tokens around a rejected span may well be an entity.
    rejected = placing.place(record.rejected, "split" if align == "split" else "strict", False)
    spans = placing.place(record.spans, align, True)
    spans, rejected = placing.drop_contradictions(spans, rejected)
    if spans_key is None:
        spans = placing.drop_overlaps(
            spans, "`convert --spans-key sc` keeps both, for bcrf_spans (`init --pipe spans`)"
        )
    certain = sorted(span for span in spans if len(span[1]) == 1)
    ambiguous = [span for span in spans if len(span[1]) != 1]
    if spans_key is not None:
        ambiguous = placing.drop_overlaps(ambiguous, "ambiguous spans cannot overlap")
    labels = record.annotated_labels
    if spans_key is None:
        covered = {i for (start, end), _ in certain for i in range(start, end)}
        doc.set_ents(
            _spans(doc, certain),
            missing=[Span(doc, i, i + 1) for i in sorted(placing.missing.keys() - covered)],
            default="outside" if record.complete else "missing",
        )
    elif record.complete or spans or rejected:
        doc.spans[spans_key] = _spans(doc, certain)
        if record.complete:
            _allow(doc, placing.missing, certain + ambiguous)
        else:
            labels = []  # no label is annotated where it has no span
    for key, found in ((AMBIGUOUS, ambiguous), (INCORRECT, rejected)):
        if found:
            doc.spans[key] = _spans(doc, found)
    if labels is not None:
        set_extensions()
        doc._.annotated_labels = labels
    for misaligned in placing.misaligned:
        add_misaligned(doc, misaligned, spans_key)
    counts = len(certain), len(ambiguous), len(rejected)
    return Made(doc, *counts, placing.left_out, placing.n_trimmed)


def tokenize(record: Record, nlp: Tokenizer) -> Doc:
    """Return a Doc of the words or of the text. Problem if the words are not in the text."""
    text, words = record.text, record.words
    try:
        if words is None:
            return nlp.make_doc(text or "")
        if text is not None:
            return Doc(nlp.vocab, *get_words_and_spaces(words, text))
    except ValueError as error:
        raise Problem("not tokenized", " ".join(str(error).split())) from None
    spaces = record.spaces
    if spaces is None and nlp.lang in UNSPACED:
        spaces = [False] * len(words)
    more: dict[str, Any] = {"sent_starts": record.sent_starts}
    more |= {
        name: [value or "" for value in values]
        for name, values in (("tags", record.tags), ("pos", record.pos))
        if values is not None
    }
    return Doc(nlp.vocab, words=words, spaces=spaces, **more)


def find_bounds(doc: Doc, span: RecordSpan, in_tokens: bool, align: Align = "strict") -> Bounds:
    """Return the token bounds of a span. Problem if it cuts a token. in_tokens: without a text."""
    if in_tokens:
        return span.start, span.end
    mode = align if align in ("contract", "expand") else "strict"
    if (found := doc.char_span(span.start, span.end, alignment_mode=mode)) is not None:
        return found.start, found.end
    outer = doc.char_span(span.start, span.end, alignment_mode="expand")
    assert outer is not None
    raise Problem(
        "cut tokens",
        f"span {span.start}:{span.end} {doc.text[span.start : span.end]!r} "
        f"{' or '.join(span.labels)} cuts tokens of {outer.text!r}; "
        f"expected {outer.start_char}:{outer.end_char}",
    )


def _split(doc: Doc, cuts: Iterable[int]) -> Doc:
    """Return the document with its tokens split at these characters."""
    offsets = sorted(cuts)
    words: list[str] = []
    spaces: list[bool] = []
    for token in doc:
        start, end = token.idx, token.idx + len(token)
        inner = offsets[bisect_right(offsets, start) : bisect_left(offsets, end)]
        words += [doc.text[a:b] for a, b in pairwise((start, *inner, end))]
        spaces += [False] * len(inner) + [bool(token.whitespace_)]
    return Doc(doc.vocab, words=words, spaces=spaces) if len(words) > len(doc) else doc


class _Placing:
    """Find the tokens of spans. Left out spans leave a problem, and missing tokens."""

    def __init__(self, doc: Doc, record: Record) -> None:
        self.doc, self.record = doc, record
        self.in_tokens = record.text is None
        self.left_out: list[Problem] = []
        self.misaligned: list[MisalignedSpan] = []
        self.n_trimmed = 0
        self.missing: dict[int, set[str]] = {}  # the labels that tokens may have; "" is any
        for start, end in record.missing:
            self._miss(self._cover(RecordSpan(start, end, ())), ())

    def place(self, spans: Sequence[RecordSpan], align: Align, miss: bool) -> list[Labeled]:
        """Return the tokens of different spans. miss: whether tokens of cut ones are missing."""
        found = []
        for span in dict.fromkeys(spans):
            try:
                trimmed = self.record.trim(span)
                bounds = find_bounds(self.doc, trimmed, self.in_tokens, align)
            except Problem as problem:
                if problem.reason == "cut tokens":
                    problem.args = (f"{problem}, or `convert --align` contract, expand or split",)
                    if miss:
                        self._miss(self._cover(trimmed), span.labels)
                    if miss and len(span.labels) == 1:
                        self.misaligned.append(MisalignedSpan(*trimmed[:2], *span.labels))
                self.left_out.append(problem)
            else:
                self.n_trimmed += trimmed != span
                found.append((bounds, span.labels))
        return [*dict.fromkeys(found)]

    def drop_contradictions(
        self, spans: list[Labeled], rejected: list[Labeled]
    ) -> tuple[list[Labeled], list[Labeled]]:
        """Leave out spans whose labels are all rejected, and the rejected spans there."""
        wrong: dict[Bounds, set[str]] = {}
        for bounds, labels in rejected:
            wrong.setdefault(bounds, set()).update(labels or ("",))
        bad = [
            (bounds, labels)
            for bounds, labels in spans
            if "" in wrong.get(bounds, ()) or (labels and wrong.get(bounds, set()) >= {*labels})
        ]
        for bounds, labels in bad:
            name = " or ".join(labels) or "an entity"
            what = f"{self._name(bounds)} is {name} and rejected"
            self._leave_out(bounds, labels, "contradiction", what)
        places = {bounds for bounds, _ in bad}
        for bounds, labels in rejected:
            if bounds in places:
                what = f"{self._name(bounds)} is rejected and an entity"
                self._leave_out(bounds, labels, "contradiction", what)
        left = [span for span in spans if span not in bad]
        return left, [span for span in rejected if span[0] not in places]

    def drop_overlaps(self, spans: list[Labeled], hint: str) -> list[Labeled]:
        """Leave out spans that overlap a longer or earlier one. hint: ends the message."""
        by_token: dict[int, Labeled] = {}
        kept = []
        for span in sorted(spans, key=lambda span: span[0][0] - span[0][1]):
            (start, end), labels = span
            other = next((by_token[i] for i in range(start, end) if i in by_token), None)
            if other is None:
                kept.append(span)
                by_token.update(dict.fromkeys(range(start, end), span))
                continue
            both = (f"{self._name(bounds)} {' or '.join(names)}" for bounds, names in (span, other))
            self._leave_out((start, end), labels, "overlap", f"{' overlaps '.join(both)}; {hint}")
        return kept

    def _leave_out(self, bounds: Bounds, labels: Iterable[str], reason: str, what: str) -> None:
        self.left_out.append(Problem(reason, what))
        self._miss(bounds, labels)

    def _miss(self, bounds: Bounds, labels: Iterable[str]) -> None:
        for i in range(*bounds):
            self.missing.setdefault(i, set()).update([*labels] or [""])

    def _cover(self, span: RecordSpan) -> Bounds:
        """Return the tokens that a span touches."""
        return find_bounds(self.doc, span, self.in_tokens, "expand")

    def _name(self, bounds: Bounds) -> str:
        start, end = bounds
        return f"{self.doc[start:end].text!r} (tokens {start}:{end})"


def _allow(doc: Doc, missing: Mapping[int, set[str]], spans: Iterable[Labeled]) -> None:
    """Set the labels that missing tokens may have in a span group."""
    set_extensions()
    allowed = {i: {"O", *labels} for i, labels in missing.items()}
    for (start, end), labels in spans if allowed else ():
        for i in allowed.keys() & set(range(start, end)):
            allowed[i].update(labels or ("",))
    for i, names in allowed.items():
        doc[i]._.allowed_labels = sorted(names)


def _spans(doc: Doc, found: Iterable[Labeled]) -> list[Span]:
    return [
        Span(doc, *bounds, label=label) for bounds, labels in found for label in labels or ("",)
    ]
