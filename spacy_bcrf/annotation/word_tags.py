"""Gold word boundaries per character, a token of any tokenizer, and merging into words."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDX, LENGTH, ORTH, SENT_START, SPACY  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.util import filter_spans

from .arrays import Values, doc_bounds, read_attributes, read_doc_attributes
from .entity_tags import BEGIN, INSIDE, MISSING, OUTSIDE


def read_words(example: Example, attribute: int) -> Values:
    """Return the reference's words as annotation of the predicted document's n characters, (n, 2).

    Column 0 is BEGIN or INSIDE in a word, OUTSIDE for whitespace, and MISSING if unannotated.
    Column 1 is the word's `attribute`, 0 without. A word that begins or ends within a character or
    contains whitespace is unannotated. So is a reference of the same tokens without `attribute`.
    ValueError if the texts differ in more than whitespace, and for words with unknown spaces.
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
            "convert the corpus with the `lang` of its text"
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
    idx, length = read_doc_attributes(doc, (IDX, LENGTH)).astype("int64").T
    return visible[idx], visible[idx + length]


def merge_characters(
    docs: Sequence[Doc], is_first: NDArray[np.bool_], attributes: Sequence[int], values: Values
) -> list[Doc]:
    """Return documents with the same texts whose tokens are words.

    docs: one or more of the same vocabulary. is_first: bool (N,), whether a word starts at a
    character, as at the first one of a document. attributes, values: of the w words, (w, A).
    Sentence starts, custom attributes, categories, spans and entities stay. A span that cuts a word
    is extended to it. Of extended entities that overlap, the longest one stays.
    """
    orth, length, space, sent_start = read_attributes(docs, (ORTH, LENGTH, SPACY, SENT_START)).T
    # `Doc.text` makes a Token for each character, which takes longer than all the rest.
    text = _join(orth, space, docs[0].vocab.strings)
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(orth))[: len(first)] - 1
    ends = (length + space).cumsum() - space
    bounds = zip((ends - length)[first].tolist(), ends[last].tolist(), strict=True)
    words = [text[start:end] for start, end in bounds]
    # spaCy takes hashes three times as fast as strings.
    add = docs[0].vocab.strings.add
    hashes = {word: add(word) for word in set(words)}
    orths: Any = list(map(hashes.__getitem__, words))
    spaces = space[last].astype(bool).tolist()
    values = np.column_stack([values, sent_start[first]])
    columns: Any = [*attributes, SENT_START]
    merged = []
    for doc, (start, end) in zip(docs, doc_bounds(docs), strict=True):
        a, b = first.searchsorted((start, end)).tolist()
        of_words, user_data, tokens = orths[a:b], dict(doc.user_data), cast(Any, values[a:b])
        copy = Doc(doc.vocab, words=of_words, spaces=spaces[a:b], user_data=user_data)
        copy.has_unknown_spaces, copy.cats = doc.has_unknown_spaces, dict(doc.cats)
        copy._context = doc._context
        copy.from_array(columns, tokens)
        if doc.spans or doc.ents:
            _move_spans(doc, copy, np.cumsum(is_first[start:end]) - 1)
        merged.append(copy)
    return merged


def _join(orth: NDArray[np.uint64], space: NDArray[np.uint64], strings: StringStore) -> str:
    """Return the text of tokens, by the hashes of their texts and whether a space follows, (N,)."""
    distinct, index = np.unique(orth, return_inverse=True)
    texts = np.array([strings[word] for word in distinct.tolist()], dtype=object)[index].tolist()
    if space.any():
        texts = [f"{word} " if space else word for word, space in zip(texts, space, strict=True)]
    return "".join(texts)


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
