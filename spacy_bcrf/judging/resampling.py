"""Intervals and significance of scores by resampling documents.

Spans of one document are not independent, so documents are drawn and swapped as a whole. Both work
on the counts of each document, see `evaluation`, without a new evaluation.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .evaluation import SpanCounts, score

CHUNK = 2**22
"""Largest number of document weights in memory at once."""

EPSILON = 1e-12
"""Differences that round differently count as equal."""


def bootstrap_scores(counts: SpanCounts, n: int = 2000, seed: int = 0) -> NDArray[np.float64]:
    """Return precision, recall and F (n, L, 3) of n bootstrap samples of D documents.

    counts: (D, L, 4). Equal seeds draw the same documents, so the differences of two pipelines are
    paired. O(n D L). Efron and Tibshirani (1993).
    """
    n_docs = len(counts)
    flat = counts.reshape(n_docs, -1)
    rng, shares = np.random.default_rng(seed), np.full(n_docs, 1 / n_docs)
    sums = [rng.multinomial(n_docs, shares, size) @ flat for size in _chunks(n, n_docs)]
    return score(np.concatenate(sums).reshape(n, *counts.shape[1:]))


def percentile_interval(samples: NDArray, level: float = 0.95) -> NDArray[np.float64]:
    """Return the bounds (2, ...) of the middle `level` of samples (n, ...), without NaN."""
    tail = 50 * (1 - level)
    is_defined = ~np.isnan(samples).all(axis=0)
    bounds = np.full((2, *samples.shape[1:]), np.nan)
    bounds[:, is_defined] = np.nanpercentile(samples[:, is_defined], (tail, 100 - tail), axis=0)
    return bounds


def has_interval(*counts: SpanCounts) -> NDArray[np.bool_]:
    """Return a mask (L, 3) of the scores that are of spans of at least two documents.

    counts: (D, L, 4) of pipelines on the same documents. Each sample of one document is the same.
    """
    gold, predicted = np.moveaxis(np.sum(counts, axis=0)[..., :2] > 0, -1, 0)
    is_some: NDArray = np.stack((predicted, gold, gold | predicted), axis=-1)
    return is_some.sum(axis=0) > 1


def randomization_test(
    one: SpanCounts, other: SpanCounts, n: int = 2000, seed: int = 0
) -> NDArray[np.float64]:
    """Return two-sided p-values (L, 3) of the differences in precision, recall and F.

    one, other: counts (D, L, 4) of two pipelines on the same documents. Paired approximate
    randomization (Noreen 1989): under the null hypothesis the pipelines can be swapped on each
    document. p = (r + 1) / (n + 1) if r of n random swaps differ at least as much. NaN for an
    undefined difference. O(n D L) over the documents that differ.
    """
    delta = (other - one).reshape(len(one), -1)
    is_different = delta.any(axis=1)
    delta = delta[is_different]
    total_one, total_other = (x.sum(axis=0).ravel() for x in (one, other))
    shape = one.shape[1:]
    observed = np.abs(score(total_one.reshape(shape)) - score(total_other.reshape(shape)))
    rng = np.random.default_rng(seed)
    n_extreme = np.zeros(observed.shape)
    for size in _chunks(n, len(delta)):
        moved = rng.integers(0, 2, (size, len(delta))).astype("float64") @ delta
        swapped = np.abs(
            score((total_one + moved).reshape(size, *shape))
            - score((total_other - moved).reshape(size, *shape))
        )
        # A swap can leave a label without predictions: its undefined difference is 0.
        n_extreme += (np.nan_to_num(swapped) >= observed - EPSILON).sum(axis=0)
    return np.where(np.isnan(observed), np.nan, (n_extreme + 1) / (n + 1))


def _chunks(n: int, n_docs: int) -> Iterator[int]:
    size = max(1, CHUNK // max(1, n_docs))
    for start in range(0, n, size):
        yield min(size, n - start)
