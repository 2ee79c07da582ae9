"""`Sentence`: words and their annotation, the output of all readers of column formats."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bcrf.io.text import CorpusError, Line

OnMalformed = Callable[[CorpusError], object]
"""Receives the error of a malformed sentence, and raises it or returns to skip the sentence."""


def raise_error(error: CorpusError) -> None:
    """Raise the error. Malformed sentences end the reading."""
    raise error


@dataclass(slots=True)
class Sentence:
    """One sentence of W words. All lists are (W,); None in them is missing annotation."""

    lines: list[Line] = field(default_factory=list)
    """The line of each word."""
    words: list[str] = field(default_factory=list)
    tags: list[str | None] = field(default_factory=list)
    """Fine-grained or universal part-of-speech tags, for spaCy's `tag_`."""
    pos: list[str | None] = field(default_factory=list)
    """Universal part-of-speech tags, for spaCy's `pos_`."""
    entities: list[str | None] = field(default_factory=list)
    """Entity tags of any scheme, not checked."""
    layers: list[list[str | None]] = field(default_factory=list)
    """Entity tags of further columns, whose entities may overlap those of `entities`."""
    spaces: list[bool] | None = None
    """Whether a space follows each word. None if the file has no spaces, or if its text does not
    consist of the words."""
    starts_document: bool = False
    empty_nodes: int = 0
    """Number of CoNLL-U empty nodes. They are not in the text, so the sentence leaves them out."""
    dropped: list[CorpusError] = field(default_factory=list)
    """Malformed lines that the sentence leaves out."""
