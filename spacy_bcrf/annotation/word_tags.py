"""Words as tags of the characters of a document, and the document of the words.

"Characters" are the tokens of the document that is segmented, whatever its tokenizer made.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDX, LENGTH, SENT_START, SPACY  # type: ignore[import-not-found]
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.util import filter_spans

from .arrays import Values, read_doc
from .entity_tags import BEGIN, INSIDE, MISSING, OUTSIDE


def read_words(example: Example, attribute: int) -> Values:
    """(n, 2) for each character of the predicted document, of the reference's words: BEGIN or
    INSIDE of one, OUTSIDE for whitespace, MISSING where nothing is known; and the word's
    `attribute`, 0 if it has none.

    Nothing is known of a word that begins or ends within a character, or with a character of
    whitespace inside; nor of a reference with the very same tokens and no `attribute`: nobody made
    words.
    ValueError if the texts differ in more than whitespace, or if the words themselves are the
    characters, as spaCy makes them where a corpus does not say where spaces are.
    """
    starts, ends = _visible_bounds(example.predicted)
    first, last = _visible_bounds(example.reference)
    if "".join(example.predicted.text.split()) != "".join(example.reference.text.split()):
        raise ValueError(f"the text to be segmented is another, {example.predicted.text[:60]!r}")
    is_char, is_word = ends > starts, last > first
    tags = example.reference.to_array(attribute)[is_word]
    values = np.zeros((len(starts), 2), dtype="uint64")
    values[~is_char, 0] = OUTSIDE
    starts, ends, first, last = starts[is_char], ends[is_char], first[is_word], last[is_word]
    is_same = len(first) == len(starts) and (first == starts).all()
    if is_same and example.reference.has_unknown_spaces and (last - first > 1).any():
        raise ValueError(
            "it does not say where spaces are, so the words themselves would be its characters; "
            "convert it with the --lang it is in"
        )
    if is_same and not tags.any():
        return values
    # By word: the characters that its first and its last character are in, and one past that.
    begin, end = starts.searchsorted(first, side="right") - 1, ends.searchsorted(last) + 1
    known = (starts[begin] == first) & (ends[end - 1] == last)
    place = np.flatnonzero(is_char)
    known &= place[end - 1] - place[begin] == end - 1 - begin
    word = first.searchsorted(starts, side="right") - 1
    values[is_char, 0] = np.where(starts == first[word], BEGIN, INSIDE)
    values[is_char, 1] = tags[word]
    values[place[~known[word]]] = MISSING, 0
    return values


def _visible_bounds(doc: Doc) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n,) of each token, how many characters that are no whitespace are before it, and before
    what follows it."""
    visible = np.cumsum([0, *(not character.isspace() for character in doc.text)])
    idx, length = read_doc(doc, (IDX, LENGTH)).astype("int64").T
    return visible[idx], visible[idx + length]


def merge_characters(
    doc: Doc, is_first: NDArray[np.bool_], attributes: Sequence[int], values: Values
) -> Doc:
    """A document of the same text, whose tokens are words.

    is_first: (n,) of each character, if a word starts with it.
    values: (w, A) what `attributes` of the words are.

    It has the sentence starts, and all of the document that is not said of its tokens: custom
    attributes, categories, spans and entities. Those that end inside of a word end with it, and of
    entities that overlap then the longest stays.
    """
    text = doc.text
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(doc))[: len(first)] - 1
    idx, length, space = read_doc(doc, (IDX, LENGTH, SPACY)).astype("int64").T
    bounds = zip(idx[first].tolist(), (idx[last] + length[last]).tolist(), strict=True)
    words = Doc(
        doc.vocab,
        words=[text[start:end] for start, end in bounds],
        spaces=space[last].astype(bool).tolist(),
        user_data=dict(doc.user_data),
    )
    said: Any = values
    words.from_array(list(attributes), said)
    if doc.has_annotation("SENT_START"):
        sent_start: Any = read_doc(doc, (SENT_START,))[first]
        words.from_array([SENT_START], sent_start)
    words.has_unknown_spaces = doc.has_unknown_spaces
    words.cats = dict(doc.cats)
    words._context = doc._context
    if doc.spans or doc.ents:
        _move_spans(doc, words, np.cumsum(is_first) - 1)
    return words


def _move_spans(doc: Doc, words: Doc, word: NDArray[np.int64]) -> None:
    """word: (n,) that each character is in."""
    bounds = [*word.tolist(), len(words)]

    def move(span: Span) -> Span:
        start = bounds[span.start]
        end = bounds[span.end - 1] + 1 if span.end > span.start else start
        return Span(words, start, end, label=span.label, kb_id=span.kb_id, span_id=span.id)

    for key, group in doc.spans.items():
        spans = [move(span) for span in group]
        words.spans[key] = SpanGroup(words, name=group.name, attrs=group.attrs, spans=spans)
    words.set_ents(filter_spans(move(span) for span in doc.ents))
