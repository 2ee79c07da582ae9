"""From the sub-words of a tokenizer to the tokens of a document, and windows of long texts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

Pooling = Literal["first", "mean", "max"]


def find_pairs(
    doc: Doc, offsets: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tokens and the sub-words (P,) that share a character, in the order of the tokens.

    offsets: the first character of each sub-word, and one past its last. Whitespace at its start
    does not count: tokenizers add it to the word after it.
    """
    text = doc.text
    bounds = []
    for start, end in offsets:
        while start < end and text[start].isspace():
            start += 1
        bounds.append((start, end))
    starts, ends = np.array(bounds, dtype="int64").reshape(-1, 2).T
    first = np.array([token.idx for token in doc], dtype="int64")
    last = first + np.array([len(token) for token in doc], dtype="int64")
    low = np.searchsorted(last, starts, side="right")
    high = np.maximum(np.searchsorted(first, ends, side="left"), low)
    counts = np.where(ends > starts, high - low, 0)
    subwords = np.repeat(np.arange(len(bounds)), counts)
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    tokens = np.repeat(low, counts) + within
    order = tokens.argsort(kind="stable")
    return tokens[order], subwords[order]


def pool_subwords(
    doc: Doc,
    offsets: Sequence[tuple[int, int]],
    values: NDArray[np.float32],
    pooling: Pooling,
) -> NDArray[np.float32]:
    """Return the log-probabilities (n, L) of tokens from the sub-words' (S, L).

    pooling: "first" takes the first sub-word of a token; "mean" the mean probability; "max" the
    sub-word that gives a label its highest probability. A sub-word of several tokens counts for
    each. A token without a sub-word, such as whitespace, is NaN.
    """
    tokens, subwords = find_pairs(doc, offsets)
    out = np.full((len(doc), values.shape[1]), np.nan, dtype="float32")
    known, first = np.unique(tokens, return_index=True)
    if pooling == "first":
        out[known] = values[subwords[first]]
    elif pooling == "mean":
        counts = np.diff(np.append(first, len(tokens)))
        sums = np.logaddexp.reduceat(values[subwords], first, axis=0) if len(known) else 0
        out[known] = sums - np.log(counts)[:, None]
    else:
        order = np.lexsort((-values[subwords].max(axis=1), tokens))
        out[known] = values[subwords[order][first]]
    return out


class SubwordWindow(NamedTuple):
    """Tokens or sub-words [start, end) that a model reads at once, and which of them to keep."""

    start: int
    end: int
    first_kept: int
    last_kept: int


def plan_windows(n: int, size: int, overlap: int) -> list[SubwordWindow]:
    """Cover n sub-words by windows of at most `size`, neighbours with at least an overlap.

    Each sub-word is kept once: from the window in which it is farthest from the nearer end.
    """
    last = max(n - size, 0)
    starts = [*range(0, last, size - overlap), last]
    cuts = [0, *((a + size + b) // 2 for a, b in pairwise(starts)), n]
    pairs = zip(starts, pairwise(cuts), strict=True)
    return [SubwordWindow(start, min(start + size, n), *kept) for start, kept in pairs]
