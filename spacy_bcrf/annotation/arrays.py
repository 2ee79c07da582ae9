"""Token annotation of a batch of documents as flat arrays.

`Values` are what the documents hold of A token attributes, uint64 (N, A), 0 where it is missing.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.training import Example

Values = NDArray[np.uint64]
Attributes = Sequence[int]

# The tag id of a token about which gold says nothing.
UNKNOWN = -1


def doc_lengths(docs: Sequence[Doc]) -> NDArray[np.int32]:
    """(B,) numbers of tokens."""
    return np.array([len(doc) for doc in docs], dtype="int32")


def find_bounds(docs: Sequence[Doc]) -> list[tuple[int, int]]:
    """First and one past the last flat token of each document."""
    return list(pairwise([0, *doc_lengths(docs).cumsum().tolist()]))


def starts_document(lengths: NDArray[np.int32]) -> NDArray[np.bool_]:
    """(N,) whether a token is the first of its document."""
    first = np.zeros(lengths.sum(), dtype=bool)
    first[(lengths.cumsum() - lengths)[lengths > 0]] = True
    return first


def read_doc(doc: Doc, attributes: Attributes) -> Values:
    """(n, A), for a single attribute too."""
    values: Any = doc.to_array(list(attributes))
    return values.reshape(len(doc), len(attributes))


def read_docs(docs: Sequence[Doc], attributes: Attributes) -> Values:
    """(N, A)"""
    return np.concatenate([read_doc(doc, attributes) for doc in docs])


def read_gold(
    examples: Sequence[Example],
    attributes: Attributes,
    align: Callable[[Example], Values],
    read: Callable[[Doc, Attributes], Values] = read_doc,
) -> tuple[Values, dict[int, str]]:
    """(N, A) the references' annotation of the tokens of the predicted documents.

    Nearly always both have the same tokens; `align` (an example to (n, A)) is for those that have
    not. `read` gives the values of a reference's attributes, the first of which is ORTH. Where one
    of them raises ValueError nothing is known, and the second result says why, by example.
    """
    values, problems = [], {}
    for i, example in enumerate(examples):
        words = example.predicted.to_array(ORTH)
        try:
            gold = read(example.reference, [ORTH, *attributes])
            is_same = len(words) == len(gold) and (words == gold[:, 0]).all()
            values.append(gold[:, 1:] if is_same else align(example))
        except ValueError as error:
            problems[i] = str(error)
            values.append(np.zeros((len(words), len(attributes)), dtype="uint64"))
    return np.concatenate(values), problems


def warn_of_problems(
    name: str, where: str, examples: Sequence[Example], problems: dict[int, str]
) -> None:
    """Say how many of the examples there cannot be learned from, which is the first and why."""
    first = min(problems)
    text = examples[first].reference.text
    start = text if len(text) <= 60 else f"{text[:60]}..."
    warnings.warn(
        f"[{name}] {len(problems)} of {len(examples)} documents in {where} have gold annotation "
        f"that cannot be learned; they are trained on as unannotated. The first is document "
        f"{first}, {start!r}: {problems[first]}. More of the kind would not be reported.",
        stacklevel=2,
    )


class LabelIndex:
    """From the values that a token attribute has for labels to the indices of the labels."""

    def __init__(self, values: Sequence[int]) -> None:
        unsorted = np.array(values, dtype="uint64")
        self._order = unsorted.argsort()
        self._values = unsorted[self._order]

    def find(self, values: Values) -> NDArray[np.int64]:
        """(N,) indices; -1 for what is no label's value."""
        if not len(self._values):
            return np.full(len(values), -1)
        at = self._values.searchsorted(values).clip(max=len(self._values) - 1)
        return np.where(self._values[at] == values, self._order[at], -1)
