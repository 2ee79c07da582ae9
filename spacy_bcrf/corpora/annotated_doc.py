"""A record of a text and what is known of its entities as a Doc, see `pipeline.supervision`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import spacy
from spacy.tokens import Doc, Span
from spacy.util import get_words_and_spaces

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    Bounds,
    PartialAnnotation,
    find_contradictions,
)
from spacy_bcrf.corpora.formats.jsonl import Mark, Record
from spacy_bcrf.io.json_objects import Problem

from .sentence import UNSPACED


class DocMaker:
    """lang: whose tokenizer to use for texts without tokens. ValueError if there is none."""

    def __init__(self, lang: str) -> None:
        try:
            self._nlp = spacy.blank(lang)
        except ImportError as error:
            raise ValueError(f"language {lang!r}: {error}") from None
        set_extensions()

    def make(self, record: Record) -> Doc:
        """Problem where tokens are not the text's or spans not of tokens, or where not all that
        is said can be true."""
        doc = self._tokenize(record)
        spans, rejected = (
            [_find_bounds(doc, mark, record.text is None) for mark in dict.fromkeys(marks)]
            for marks in (record.spans, record.rejected)
        )
        entities = {bounds: labels[0] for bounds, labels in spans if len(labels) == 1}
        ambiguous = [(bounds, labels) for bounds, labels in spans if len(labels) != 1]
        _check_overlaps(doc, [span for span in spans if len(span[1]) == 1])
        if len(ambiguous) != len(dict(ambiguous)):
            (start, end), _ = Counter(bounds for bounds, _ in ambiguous).most_common(1)[0]
            text = doc[start:end].text
            raise Problem("contradiction", f"{text!r} has different types, each of which is open")
        markings = PartialAnnotation(
            ambiguous=_by_bounds(ambiguous), incorrect=_by_bounds(rejected)
        )
        if problems := find_contradictions(doc, markings, entities):
            raise Problem("contradiction", "; ".join(problem.what for problem in problems))
        doc.set_ents(
            [Span(doc, *bounds, label=label) for bounds, label in entities.items()],
            default="outside" if record.complete else "missing",
        )
        for key, marks in ((AMBIGUOUS, ambiguous), (INCORRECT, rejected)):
            if marks:
                doc.spans[key] = [
                    Span(doc, *bounds, label=label)
                    for bounds, labels in marks
                    for label in labels or ("",)
                ]
        if record.annotated_labels is not None:
            doc._.annotated_labels = record.annotated_labels
        return doc

    def _tokenize(self, record: Record) -> Doc:
        text, words = record.text, record.words
        try:
            if words is None:
                return self._nlp.make_doc(text or "")
            if text is None:
                spaces = [False] * len(words) if self._nlp.lang in UNSPACED else None
                return Doc(self._nlp.vocab, words=words, spaces=spaces)
            return Doc(self._nlp.vocab, *get_words_and_spaces(words, text))
        except ValueError as error:  # too long for spaCy, or not the same
            raise Problem("not tokenized", " ".join(str(error).split())) from None


def _find_bounds(doc: Doc, mark: Mark, in_tokens: bool) -> tuple[Bounds, tuple[str, ...]]:
    if in_tokens:
        return (mark.start, mark.end), mark.labels
    span = doc.char_span(mark.start, mark.end)
    if span is not None:
        return (span.start, span.end), mark.labels
    outer = doc.char_span(mark.start, mark.end, alignment_mode="expand")
    assert outer is not None
    raise Problem(
        "cut token",
        f"span {mark.start}:{mark.end} {doc.text[mark.start : mark.end]!r} "
        f"{' or '.join(mark.labels)} cuts tokens of {outer.text!r}; "
        f"expected {outer.start_char}:{outer.end_char}, or tokens of its own",
    )


def _check_overlaps(doc: Doc, spans: Sequence[tuple[Bounds, tuple[str, ...]]]) -> None:
    last: tuple[Bounds, tuple[str, ...]] | None = None
    for span in sorted(spans):
        if last and span[0][0] < last[0][1]:
            first, second = (
                f"{doc[start:end].text!r} (tokens {start}:{end}) {label}"
                for (start, end), (label,) in (last, span)
            )
            raise Problem("contradiction", f"the spans {first} and {second} overlap")
        last = span


def _by_bounds(
    marks: Sequence[tuple[Bounds, tuple[str, ...]]],
) -> Mapping[Bounds, frozenset[str]]:
    """As `PartialAnnotation` have them, an empty label for any."""
    labels: dict[Bounds, frozenset[str]] = {}
    for bounds, names in marks:
        labels[bounds] = labels.get(bounds, frozenset()) | frozenset(names or ("",))
    return labels
