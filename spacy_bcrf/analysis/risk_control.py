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


def count_units(kind: str, units: Units, thresholds: Floats) -> Counts:
    """Count the units that a promise is about at each threshold, and the wrong ones.

    kind: "precision", of predictions whose posterior is at least the threshold; "recall", of gold
    spans, which are wrong if their posterior is below it.
    """
    count = _count_false_positives if kind == "precision" else _count_missed
    return count(units, thresholds)


def _count_false_positives(units: Units, thresholds: Floats) -> Counts:
    kept = [units.posteriors >= threshold for threshold in thresholds]
    wrong = [units.sum_by_doc(is_kept & ~units.correct) for is_kept in kept]
    return Counts(np.stack(wrong, 1), np.stack([units.sum_by_doc(is_kept) for is_kept in kept], 1))


def _count_missed(units: Units, thresholds: Floats) -> Counts:
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


def hoeffding_bentkus_p_values(excess: Floats, risk: float) -> Floats:
    """Return p-values (K,) of the hypotheses that the mean excess of a document is above 0.

    Proposition 3 of Angelopoulos et al. (2021): the smaller of Hoeffding's bound exp(-n kl(mean,
    risk)) and Bentkus's, e times the binomial probability of so small a loss. Both hold for any
    number n of documents. Documents with excess 0 have no units, and are left out. O(D K).

    excess: (D, K), see `excess_losses`.
    """
    n, means = _mean_losses(excess, risk)
    p = np.exp(-n * _divergence(means, risk))
    n_max = int(n.max(initial=0))
    log_factorials = np.append(0, np.log(np.arange(1, n_max + 1)).cumsum())
    for k in np.flatnonzero((means < risk) & (n > 0)):
        # Against rounding: the mean of whole numbers times n is a whole number.
        wrong = np.arange(math.ceil(n[k] * means[k] - 1e-9) + 1)
        right = n[k] - wrong
        logs = log_factorials[n[k]] - log_factorials[wrong] - log_factorials[right]
        logs += wrong * math.log(risk) + right * math.log1p(-risk)
        p[k] = min(p[k], math.e * np.exp(logs).sum())
    return p


def _mean_losses(excess: Floats, risk: float) -> tuple[NDArray[np.int64], Floats]:
    """Return the number of documents with units, and their mean loss, (K,) each.

    The loss is excess + risk, in [0, 1].
    """
    n = (excess != 0).sum(0)
    return n, (excess.sum(0) / n.clip(min=1) + risk).clip(0, 1)


def _divergence(means: Floats, risk: float) -> Floats:
    """Return the Bernoulli divergence kl(mean, risk) (K,), 0 for means above the risk."""
    m = means.clip(max=risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(m > 0, m * np.log(m / risk), 0)
    return first + (1 - m) * np.log((1 - m) / (1 - risk))


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
    return math.ceil(math.log(level) / math.log1p(-risk))


def estimate_documents(excess: Floats, risk: float, level: float) -> int | None:
    """Return the number of documents like these that rejects one of the hypotheses.

    It counts documents with units at the best threshold. None if no mean excess is below 0.
    """
    n, means = _mean_losses(excess, risk)
    best = _divergence(means, risk)[n > 0].max(initial=0)
    return math.ceil(math.log(1 / level) / best) if best > 0 else None
