"""`Sentence`: words and their tags, the output of all readers of column formats."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bcrf.io.text import CorpusError, Line
from bcrf.schemes import read_spans

from .record import Record, RecordSpan

UNSPACED = frozenset({"bo", "ja", "th", "zh"})
"""spaCy's languages that put no space between words."""

_WHITE_SPACE = re.compile(r"\s+")

OnMalformed = Callable[[CorpusError], object]
"""Receives the error of a malformed sentence, and raises it or returns to skip the sentence."""


def raise_error(error: CorpusError) -> None:
    raise error


@dataclass(slots=True)
class Sentence:
    """One sentence of W words. All lists are (W,); None in them is missing annotation.

    tags: fine-grained or universal, for `tag_`. pos: universal, for `pos_`. entities: tags of any
    scheme, not checked. layers: entity tags of further columns, whose entities may overlap.
    spaces: whether a space follows each word; None if the file has no spaces, or another text.
    empty_nodes: number of CoNLL-U's, which are not in the text. dropped: malformed lines left out.
    """

    lines: list[Line] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str | None] = field(default_factory=list)
    pos: list[str | None] = field(default_factory=list)
    entities: list[str | None] = field(default_factory=list)
    layers: list[list[str | None]] = field(default_factory=list)
    spaces: list[bool] | None = None
    starts_document: bool = False
    empty_nodes: int = 0
    dropped: list[CorpusError] = field(default_factory=list)


def join(words: Sequence[str], spaces: Sequence[bool]) -> str:
    """Return the text of words with these spaces, without a space at the end."""
    text = "".join(word + " " if space else word for word, space in zip(words, spaces, strict=True))
    return text[:-1] if spaces and spaces[-1] else text


def align(words: Sequence[str], text: str) -> list[bool] | None:
    """Return whether white space follows each word, the last too. None if the text differs."""
    spaces, end = [], 0
    for word in words:
        if not text.startswith(word, end):
            return None
        end += len(word)
        gap = _WHITE_SPACE.match(text, end)
        spaces.append(gap is not None)
        if gap:
            end = gap.end()
    if end < len(text):
        return None
    return [*spaces[:-1], True]


def make_records(sentences: Iterable[Sentence], n_sents: int, unspaced: bool) -> Iterator[Record]:
    """Yield a record of each `n_sents` sentences, 0 for documents. unspaced: of the language."""
    group: list[Sentence] = []
    for sentence in sentences:
        if unspaced:
            sentence.spaces = sentence.spaces or [False] * len(sentence.words)
        if group and (sentence.starts_document or len(group) == n_sents):
            yield _join(group)
            group = []
        group.append(sentence)
    if group:
        yield _join(group)


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
