"""Gold word boundaries per character, and merging of characters into words.

A "character" is a token of the document to be segmented, for any tokenizer.
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
    """Return the reference's words as annotation of the predicted document's n characters, (n, 2).

    Column 0 is BEGIN or INSIDE in a word, OUTSIDE for whitespace, and MISSING if unannotated.
    Column 1 is the word's `attribute`, or 0 if the word has none.

    A word is unannotated if it begins or ends within a character or contains whitespace. All words
    are unannotated if the reference has the same tokens without `attribute`: it is not segmented.

    Raises ValueError if the texts differ in more than whitespace. Also raises ValueError if the
    characters equal the words because the corpus has unknown spaces.
    """
    starts, ends = _visible_bounds(example.predicted)
    first, last = _visible_bounds(example.reference)
    if "".join(example.predicted.text.split()) != "".join(example.reference.text.split()):
        raise ValueError(
            f"the reference has a different text than {example.predicted.text[:60]!r}; "
            "the two may differ only in whitespace"
        )
    is_char, is_word = ends > starts, last > first
    tags = example.reference.to_array(attribute)[is_word]
    values = np.zeros((len(starts), 2), dtype="uint64")
    values[~is_char, 0] = OUTSIDE
    starts, ends, first, last = starts[is_char], ends[is_char], first[is_word], last[is_word]
    is_same = len(first) == len(starts) and (first == starts).all()
    if is_same and example.reference.has_unknown_spaces and (last - first > 1).any():
        raise ValueError(
            "the reference has unknown spaces, so its words would be the characters; "
            "convert the corpus with the --lang of its text"
        )
    if is_same and not tags.any():
        return values
    # For each word, the first character and one past the last.
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
    """Return start and end of each token, counted in non-whitespace characters, (n,) each."""
    visible = np.cumsum([0, *(not character.isspace() for character in doc.text)])
    idx, length = read_doc(doc, (IDX, LENGTH)).astype("int64").T
    return visible[idx], visible[idx + length]


def merge_characters(
    doc: Doc, is_first: NDArray[np.bool_], attributes: Sequence[int], values: Values
) -> Doc:
    """Return a document with the same text whose tokens are words.

    is_first: bool (n,), whether a word starts at a character.
    attributes, values: A token attributes and their values for the w words, (w, A).

    The new document keeps sentence starts, custom attributes, categories, spans and entities. A
    span that starts or ends inside a word is extended to the whole word. If extended entities
    overlap, the longest one stays.
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
    attribute_values: Any = values
    words.from_array(list(attributes), attribute_values)
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
    """Copy spans and entities. word: index of each character's word, (n,)."""
    bounds = [*word.tolist(), len(words)]

    def move(span: Span) -> Span:
        start = bounds[span.start]
        end = bounds[span.end - 1] + 1 if span.end > span.start else start
        return Span(words, start, end, label=span.label, kb_id=span.kb_id, span_id=span.id)

    for key, group in doc.spans.items():
        spans = [move(span) for span in group]
        words.spans[key] = SpanGroup(words, name=group.name, attrs=group.attrs, spans=spans)
    words.set_ents(filter_spans(move(span) for span in doc.ents))
