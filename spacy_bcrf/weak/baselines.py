"""What the votes say without any model: the span with most votes, and the tag with most votes."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bcrf.chain.potentials import join_ranges
from bcrf.chain.votes import Votes
from spacy_bcrf.annotation.arrays import is_first

Spans = set[tuple[int, int, int]]
"""First flat token, one past the last, number of the label."""


def take_plurality(votes: Sequence[Votes]) -> Spans:
    """Return the spans with most votes of those that overlap; of equal ones the first.

    A vote for alternatives is one for each of them.
    """
    counts: Counter[tuple[int, int, int]] = Counter()
    for one in votes:
        for k, of_label in enumerate(one.means.T):
            spans = (column[of_label[one.symbols]].tolist() for column in (one.starts, one.ends))
            counts.update((start, end, k) for start, end in zip(*spans, strict=True))
    found: Spans = set()
    taken: set[int] = set()
    for span, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        if taken.isdisjoint(tokens := range(*span[:2])):
            found.add(span)
            taken.update(tokens)
    return found


def take_majority(votes: Sequence[Votes], lengths: NDArray[np.int32], n_labels: int) -> Spans:
    """Return the runs of tokens whose label has most votes, as the majority of WRENCH.

    Silent sources abstain. lengths: (B,) of the documents. Of equal labels the first counts.
    """
    counts = np.zeros((int(lengths.sum()), n_labels))
    for one in votes:
        shares = one.means / one.means.sum(axis=1, keepdims=True).clip(min=1)
        sizes = one.ends - one.starts
        counts[join_ranges(one.starts, sizes)] += np.repeat(shares[one.symbols], sizes, axis=0)
    label = np.where(counts.any(axis=1), counts.argmax(axis=1), -1)
    begins = is_first(lengths) | (label != np.roll(label, 1))
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(label))
    rows = zip(starts.tolist(), ends.tolist(), label[starts].tolist(), strict=True)
    return {row for row in rows if row[2] >= 0}
