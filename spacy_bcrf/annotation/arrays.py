"""Token annotation of B documents with N tokens in all as flat arrays; one document has n.

`Values` hold A attributes of each token: uint64 (N, A), 0 for missing annotation.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.training import Example

from bcrf.chain.gold import UNKNOWN as UNKNOWN

Values = NDArray[np.uint64]
Attributes = Sequence[int]
Bools = NDArray[np.bool_]


def doc_lengths(docs: Sequence[Doc]) -> NDArray[np.int32]:
    """Return the numbers of tokens (B,)."""
    return np.array([len(doc) for doc in docs], dtype="int32")


def is_first(lengths: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return a mask (N,) of the first token of each sequence. lengths: (B,)."""
    mask = np.zeros(lengths.sum(), dtype=bool)
    mask[(lengths.cumsum() - lengths)[lengths > 0]] = True
    return mask


def doc_bounds(docs: Sequence[Doc]) -> list[tuple[int, int]]:
    """Return the first flat token of each document, and one past its last."""
    return list(pairwise([0, *doc_lengths(docs).cumsum().tolist()]))


def split_spans(
    docs: Sequence[Doc], starts: NDArray[np.integer], ends: NDArray[np.integer], *columns: NDArray
) -> list[list[tuple[Any, ...]]]:
    """Return spans, starts and ends (M,) ascending, of each document as (start, end, *columns)."""
    offsets = np.cumsum([0, *(len(doc) for doc in docs)])
    doc_index = np.searchsorted(offsets, starts, side="right") - 1
    shift = offsets[doc_index]
    parts = (starts - shift, ends - shift, *columns)
    spans = list(zip(*(part.tolist() for part in parts), strict=True))
    splits = np.searchsorted(starts, offsets).tolist()
    return [spans[a:b] for a, b in pairwise(splits)]


def read_doc_attributes(doc: Doc, attributes: Attributes) -> Values:
    """Return the attributes of a document's tokens (n, A), a matrix even if A is 1."""
    values: Any = doc.to_array(list(attributes))
    return values.reshape(len(doc), len(attributes))


def read_attributes(docs: Sequence[Doc], attributes: Attributes) -> Values:
    """Return the attributes of all tokens (N, A)."""
    columns: Any = list(attributes)
    values = np.concatenate([doc.to_array(columns) for doc in docs])
    return values.reshape(-1, len(columns))


class DocBatch(list[Doc]):
    """Documents, and attributes of their tokens that several readers share, while none changes.

    columns: the attributes. values: (N, A), one column each. lengths: (B,) numbers of tokens.
    is_first: mask (N,) of first tokens. strings: the texts of hashes.
    """

    def __init__(self, docs: Sequence[Doc], attributes: Attributes) -> None:
        super().__init__(docs)
        self.columns = list(dict.fromkeys(attributes))
        self.values = read_attributes(docs, self.columns)
        self.lengths = doc_lengths(docs)
        self.is_first = is_first(self.lengths)
        self.strings = docs[0].vocab.strings

    @classmethod
    def of_tokens(
        cls,
        strings: StringStore,
        attributes: Attributes,
        values: Values,
        lengths: NDArray[np.int32],
    ) -> "DocBatch":
        """Make a batch of tokens that no document has, for layers that read nothing but columns."""
        batch = cls.__new__(cls)
        batch.columns, batch.values, batch.lengths = list(attributes), values, lengths
        batch.is_first, batch.strings = is_first(lengths), strings
        return batch


def align_values(
    examples: Sequence[Example],
    n_attributes: int,
    align: Callable[[Example], Values],
    read: Callable[[Doc], Values] | None = None,
) -> tuple[Values, dict[int, str]]:
    """Return gold annotation (N, A) aligned with the predicted tokens, and problems by example.

    align: returns that of an example. read: of a reference with the same tokens, or None.
    """
    values, problems = [], {}
    for i, example in enumerate(examples):
        predicted, reference = example.predicted, example.reference
        try:
            if read and np.array_equal(predicted.to_array(ORTH), reference.to_array(ORTH)):
                gold = read(reference)
            else:
                gold = align(example)
        except ValueError as error:
            problems[i] = str(error)
            gold = np.zeros((len(predicted), n_attributes), dtype="uint64")
        values.append(gold)
    return np.concatenate(values), problems


def allowed_tags(tags: NDArray, n_tags: int) -> Bools:
    """Return gold as allowed tags (N, T). tags: int32 (N,) with UNKNOWN, or the mask itself."""
    if tags.dtype == bool:
        return tags
    return (tags[:, None] == np.arange(n_tags)) | (tags[:, None] == UNKNOWN)
