"""`Record`: a document and its annotation as a file has them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bcrf.io.json_objects import Problem
from spacy_bcrf.annotation.partial import Bounds


class Ignored(Exception):
    """A record without usable annotation. The message names the annotator's decision."""


class RecordSpan(NamedTuple):
    """A span in characters, or in tokens without text. labels: possible ones, none for any."""

    start: int
    end: int
    labels: tuple[str, ...]


@dataclass(slots=True)
class Record:
    """A document of W words, if it is tokenized, with its entity annotation.

    places: file and line of each source. text, words: None if unknown. rejected: spans that are no
    entity of their labels. complete: whether tokens outside of all spans are O, not missing.
    missing: parts without annotation, in the unit of the spans. All (W,), spaces: whether a space
    follows, only without a text, None if unknown; tags, pos: values of `tag_` and `pos_`;
    sent_starts: whether a word starts a sentence. is_answer: whether other records may have further
    answers about the same text, as in Prodigy.
    """

    places: list[str]
    text: str | None
    words: list[str] | None
    spans: list[RecordSpan]
    rejected: list[RecordSpan] = field(default_factory=list)
    annotated_labels: list[str] | None = None
    complete: bool = False
    missing: list[Bounds] = field(default_factory=list)
    spaces: list[bool] | None = None
    tags: list[str | None] | None = None
    pos: list[str | None] | None = None
    sent_starts: list[bool] | None = None
    is_answer: bool = False

    @property
    def n_spans(self) -> int:
        return len(self.spans) + len(self.rejected)

    def drop_words(self) -> "Record":
        """Return the record without the words of its text, if it has any, unless they have tags."""
        if self.text is None or self.tags is not None or self.pos is not None:
            return self
        return replace(self, words=None, spaces=None, sent_starts=None)

    def trim(self, span: RecordSpan) -> RecordSpan:
        """Return the span without white space at its ends. Problem if it is white space."""
        content: Sequence[str] = (self.words or ()) if self.text is None else self.text
        start, end, labels = span
        while start < end and content[start].isspace():
            start += 1
        while start < end and content[end - 1].isspace():
            end -= 1
        if start == end:
            own = content[span.start : span.end]
            raise Problem("white space", f"span {span.start}:{span.end} is white space, {own!r}")
        return RecordSpan(start, end, labels)
