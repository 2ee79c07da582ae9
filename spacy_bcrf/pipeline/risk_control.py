"""Learn then test: thresholds whose risk is below a bound, with a given confidence.

Documents are exchangeable; spans of one document are not. So each document counts once, with a
loss in [0, 1], the share of its units that are wrong. Angelopoulos et al. (2021), "Learn then
Test", turn p-values of the hypotheses "the risk at threshold k is above its bound" into thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A bet of the whole capital would lose it at the first document that is wrong throughout.
_LARGEST_BET = 0.9


class Units(NamedTuple):
    """M predictions, or M gold spans, of D documents.

    docs: (M,) index of the document. posteriors: (M,). correct: bool (M,), all true for gold spans.
    n_docs: D.
    """

    docs: NDArray[np.integer]
    posteriors: Floats
    correct: NDArray[np.bool_]
    n_docs: int

    def select(self, chosen: NDArray) -> Units:
        """Return the chosen units of the same documents. chosen: indices, or bool (M,)."""
        return Units(self.docs[chosen], self.posteriors[chosen], self.correct[chosen], self.n_docs)

    def sum_by_doc(self, weights: NDArray) -> Floats:
        """Return the sum (D,) of the weights (M,) of each document's units."""
        return np.bincount(self.docs, weights, self.n_docs).astype("float64")


class Counts(NamedTuple):
    """Numbers of wrong units and of all units, of D documents at K thresholds, (D, K) each."""

    wrong: Floats
    total: Floats


def count_false_positives(units: Units, thresholds: Floats) -> Counts:
    """Count predictions with a posterior of at least each threshold, and the wrong ones."""
    kept = [units.posteriors >= threshold for threshold in thresholds]
    wrong = [units.sum_by_doc(is_kept & ~units.correct) for is_kept in kept]
    return Counts(np.stack(wrong, 1), np.stack([units.sum_by_doc(is_kept) for is_kept in kept], 1))


def count_missed(units: Units, thresholds: Floats) -> Counts:
    """Count gold spans, and those with a posterior below each threshold."""
    missed = [units.sum_by_doc(units.posteriors < threshold) for threshold in thresholds]
    total = units.sum_by_doc(np.ones(len(units.docs)))
    return Counts(np.stack(missed, 1), np.repeat(total[:, None], len(thresholds), 1))


def excess_losses(counts: Counts, risk: float, max_units: int) -> Floats:
    """Return the excess (D, K) of each document's loss over the risk, in [-risk, 1 - risk].

    A document with n units weighs min(n, max_units) / max_units; one without units weighs nothing.
    The mean is at most 0 where the weighted mean of the documents' shares of wrong units is at most
    the risk. With max_units = 1 all documents with units weigh the same. If no document has more
    than max_units units, the weighted mean is the share of wrong units in the corpus.
    """
    weights = counts.total.clip(max=max_units) / max_units
    return weights * (counts.wrong / counts.total.clip(min=1) - risk)


def betting_p_values(excess: Floats, risk: float, level: float) -> Floats:
    """Return p-values (K,) of the hypotheses that the mean excess of a document is above 0.

    A gambler bets a share of the capital against each hypothesis, document by document. If the
    hypothesis is true, the capital exceeds 1 / p at any time with probability p at most. The bets
    follow the predictable plug-in of Waudby-Smith and Ramdas (2024), equation 26: they grow as the
    variance of the documents seen so far falls. The test is exact for any number of documents. It
    shuffles them with a fixed seed, since a corpus may be sorted. O(D K).

    excess: (D, K), see `excess_losses`. level: the error that the bets aim at.
    """
    n = len(excess)
    if not n:
        return np.ones(excess.shape[1])
    excess = excess[np.random.default_rng(0).permutation(n)]
    seen = np.arange(1, n + 1)[:, None] + 1
    # One document of mean 0 before the first, with the largest variance of losses of mean `risk`.
    deviations = (excess - excess.cumsum(0) / seen) ** 2
    prior = np.full((1, excess.shape[1]), risk * (1 - risk))
    variances = np.concatenate([prior, ((prior + deviations.cumsum(0)) / seen)[:-1]])
    bets = np.sqrt(2 * math.log(1 / level) / (n * variances))
    bets = bets.clip(max=_LARGEST_BET / (1 - risk))
    log_capital = np.log1p(-bets * excess).cumsum(0).max(0)
    return np.exp(-log_capital.clip(min=0))


def last_certified(p_values: Floats, budgets: Sequence[float] | Floats) -> int | None:
    """Return the index of the last hypothesis of a sequence that can be rejected; None without any.

    The fallback procedure (Wiens 2003): hypothesis k is rejected if its p-value is at most its
    budget plus the budget that the rejections directly before it hand on. The probability to reject
    any true hypothesis is at most the sum of the budgets. With the whole budget at the first
    hypothesis, this is fixed-sequence testing.
    """
    certified, budget = None, 0.0
    for k, (p, own) in enumerate(zip(p_values, budgets, strict=True)):
        budget += own
        if p <= budget:
            certified = k
        else:
            budget = 0.0
    return certified


def fewest_documents(risk: float, level: float) -> int:
    """Return the number of documents that rejects at this level if no unit is wrong."""
    return math.ceil(math.log(1 / level) / math.log1p(_LARGEST_BET * risk / (1 - risk)))


def estimate_documents(excess: Floats, level: float) -> int | None:
    """Estimate the number of documents like these that rejects one of the hypotheses.

    From mean and variance at the best threshold; None if the mean excess is nowhere below 0.
    """
    means, variances = excess.mean(0), excess.var(0)
    gains = np.where(means < 0, means**2 / variances.clip(min=1e-12), 0)
    return math.ceil(2 * math.log(1 / level) / gains.max()) if gains.any() else None
