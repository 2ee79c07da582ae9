"""`Record`: a text with entity annotation from an annotation tool, and its conversion to a Doc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import get_words_and_spaces

from bcrf.io.json_objects import Problem
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    Bounds,
    PartialAnnotation,
    find_contradictions,
)

from .spacing import UNSPACED


class Ignored(Exception):
    """A record without usable annotation. The message names the annotator's decision."""


class RecordSpan(NamedTuple):
    """A span of a record.

    start, end: characters, or tokens in a record without text; `end` is exclusive. labels: the
    possible labels; empty for any label.
    """

    start: int
    end: int
    labels: tuple[str, ...]


@dataclass(slots=True)
class Record:
    """One text with its entity annotation.

    places: file and line of each source. text: None if only the words are known. words: None if the
    text is not tokenized. rejected: spans that are no entity of their labels. complete: whether
    tokens outside of all spans are O, not missing.
    """

    places: list[str]
    text: str | None
    words: list[str] | None
    spans: list[RecordSpan]
    rejected: list[RecordSpan]
    annotated_labels: list[str] | None
    complete: bool
    n_trimmed: int = 0
    """Number of spans that lost white space at their ends."""

    @property
    def n_spans(self) -> int:
        """Number of all spans, including rejected and repeated spans."""
        return len(self.spans) + len(self.rejected)


LabeledBounds = tuple[Bounds, tuple[str, ...]]


def make_doc(record: Record, nlp: Language, spans_key: str | None = None) -> Doc:
    """Tokenize a record and set its entities and its partial annotation.

    nlp: the tokenizer of texts without tokens. spans_key: the span group of the spans, which may
    overlap; None for the entities of the Doc. Problem if the tokens are not in the text, if a
    span is not aligned with tokens, or if the annotation contradicts itself.
    """
    doc = _tokenize(record, nlp)
    in_tokens = record.text is None
    spans, rejected = (
        [(find_bounds(doc, span, in_tokens), span.labels) for span in dict.fromkeys(found)]
        for found in (record.spans, record.rejected)
    )
    certain = sorted(span for span in spans if len(span[1]) == 1)
    ambiguous = [span for span in spans if len(span[1]) != 1]
    if spans_key is None:
        _check_overlaps(doc, certain)
    if len(ambiguous) != len(dict(ambiguous)):
        (start, end), _ = Counter(bounds for bounds, _ in ambiguous).most_common(1)[0]
        text = doc[start:end].text
        raise Problem("contradiction", f"{text!r} has ambiguous spans with different labels")
    entities = {bounds: labels[0] for bounds, labels in certain}
    if ambiguous or rejected:
        partial = PartialAnnotation(
            ambiguous=_labels_by_bounds(ambiguous), incorrect=_labels_by_bounds(rejected)
        )
        known = entities if spans_key is None else {}
        if problems := find_contradictions(doc, partial, known):
            raise Problem("contradiction", "; ".join(problem.what for problem in problems))
    labels = record.annotated_labels
    if spans_key is None:
        doc.set_ents(
            [Span(doc, *bounds, label=label) for bounds, label in entities.items()],
            default="outside" if record.complete else "missing",
        )
    elif record.complete or certain or ambiguous or rejected:
        doc.spans[spans_key] = [Span(doc, *bounds, label=label) for bounds, (label,) in certain]
        # No label is annotated where it has no span.
        labels = labels if record.complete else []
    for key, found in ((AMBIGUOUS, ambiguous), (INCORRECT, rejected)):
        if found:
            doc.spans[key] = [
                Span(doc, *bounds, label=label)
                for bounds, labels in found
                for label in labels or ("",)
            ]
    if labels is not None:
        set_extensions()
        doc._.annotated_labels = labels
    return doc


def _tokenize(record: Record, nlp: Language) -> Doc:
    text, words = record.text, record.words
    try:
        if words is None:
            return nlp.make_doc(text or "")
        if text is None:
            spaces = [False] * len(words) if nlp.lang in UNSPACED else None
            return Doc(nlp.vocab, words=words, spaces=spaces)
        return Doc(nlp.vocab, *get_words_and_spaces(words, text))
    except ValueError as error:  # the text is too long for spaCy, or the words are not in it
        raise Problem("not tokenized", " ".join(str(error).split())) from None


def find_bounds(doc: Doc, span: RecordSpan, in_tokens: bool) -> Bounds:
    """Return the token bounds of a span. Problem if it cuts a token.

    in_tokens: whether the record has no text.
    """
    if in_tokens:
        return span.start, span.end
    if (found := doc.char_span(span.start, span.end)) is not None:
        return found.start, found.end
    outer = doc.char_span(span.start, span.end, alignment_mode="expand")
    assert outer is not None
    raise Problem(
        "cut token",
        f"span {span.start}:{span.end} {doc.text[span.start : span.end]!r} "
        f"{' or '.join(span.labels)} cuts tokens of {outer.text!r}; "
        f'expected {outer.start_char}:{outer.end_char}, or a record with "tokens"',
    )


def _check_overlaps(doc: Doc, spans: list[LabeledBounds]) -> None:
    """Raise Problem if two of the sorted spans overlap."""
    for first, second in pairwise(spans):
        if second[0][0] < first[0][1]:
            names = (
                f"{doc[start:end].text!r} (tokens {start}:{end}) {label}"
                for (start, end), (label,) in (first, second)
            )
            raise Problem(
                "contradiction",
                f"the spans {' and '.join(names)} overlap. --spans-key sc keeps both, for "
                "bcrf_spans",
            )


def _labels_by_bounds(spans: Iterable[LabeledBounds]) -> dict[Bounds, frozenset[str]]:
    """Return the labels by bounds, for `PartialAnnotation`: an empty label means any."""
    by_bounds: dict[Bounds, frozenset[str]] = {}
    for bounds, labels in spans:
        by_bounds[bounds] = by_bounds.get(bounds, frozenset()) | frozenset(labels or ("",))
    return by_bounds
