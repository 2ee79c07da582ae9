"""F of the spans of BIO tags, fast enough to look after every pass.

For experiments: used by `scripts` and `benchmarks`, not by components.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Spans(NamedTuple):
    """M spans of flat tokens: first, one past the last, and label, (M,) each."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    labels: NDArray[np.int64]


def find_spans(tags: Sequence[str], ids: NDArray, lengths: NDArray) -> Spans:
    """The spans that conlleval finds in tag ids (N,) of `tags`, valid or not."""
    parts = [tag.partition("-") for tag in tags]
    names = sorted({label for _, _, label in parts})
    prefix = np.array([ord(p[0]) if label else 0 for p, _, label in parts])[ids]
    label = np.array([names.index(label) for _, _, label in parts])[ids]
    inside = prefix > 0
    first = np.zeros(len(ids) + 1, dtype=bool)
    first[np.concatenate([[0], lengths.cumsum()])] = True
    changes = np.ones(len(ids) + 1, dtype=bool)
    changes[1:-1] = ~inside[:-1] | (label[1:] != label[:-1])
    starts_here = inside & (first[:-1] | changes[:-1] | (prefix == ord("B")))
    starts = np.flatnonzero(starts_here)
    # A span ends before the next token that is outside of it or starts another one.
    stops = np.flatnonzero(np.concatenate([starts_here | ~inside, [True]]) | first)
    ends = stops[stops.searchsorted(starts, side="right")]
    return Spans(starts, ends, label[starts])


def span_f(tags: Sequence[str], gold: NDArray, found: NDArray, lengths: NDArray) -> float:
    """F in percent, as conlleval computes it, of tag ids (N,)."""
    one, other = find_spans(tags, gold, lengths), find_spans(tags, found, lengths)
    keys = [np.stack(spans, axis=1) for spans in (one, other)]
    right = len(set(map(tuple, keys[0].tolist())) & set(map(tuple, keys[1].tolist())))
    return 200 * right / max(len(one.starts) + len(other.starts), 1)
