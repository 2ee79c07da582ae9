"""Learn then test: thresholds whose risk is below a bound, with a given confidence.

Documents are exchangeable; spans of one document are not. So each document counts once, with a
loss in [0, 1], the share of its units that are wrong. Angelopoulos et al. (2021), "Learn then
Test", turn p-values of the hypotheses "the risk at threshold k is above its bound" into thresholds.

Three tests give p-values. The losses and weights choose one, see `Loss.p_values`; data do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_DOCUMENTS = 100_000
"""Larger estimates of the number of documents needed say nothing."""


class Units(NamedTuple):
    """M predictions, or M gold spans, of D documents.

    docs: (M,) index of the document. posteriors, correct: (M,); gold spans are correct. n_docs: D.
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


class UnitCounts(NamedTuple):
    """Numbers of wrong units and of all units, of D documents at K thresholds, (D, K) each."""

    wrong: Floats
    total: Floats

    def take(self, docs: NDArray) -> UnitCounts:
        """Return the counts of some documents. docs: indices, or bool (D,)."""
        return UnitCounts(self.wrong[docs], self.total[docs])

    def by_document(self) -> UnitCounts:
        """Return counts of documents with units: a document with a wrong unit is wrong."""
        return UnitCounts((self.wrong > 0).astype("float64"), (self.total > 0).astype("float64"))


def count_units(kind: str, units: Units, thresholds: Floats) -> UnitCounts:
    """Count the units that a promise is about at each threshold, and the wrong ones.

    kind: "precision", of predictions whose posterior is at least the threshold; "recall", of gold
    spans, which are wrong if their posterior is below it.
    """
    wrong, total = [], []
    for threshold in thresholds:
        is_kept = units.posteriors >= threshold
        is_wrong = is_kept & ~units.correct if kind == "precision" else ~is_kept
        wrong.append(units.sum_by_doc(is_wrong))
        total.append(units.sum_by_doc(is_kept | (kind == "recall")))
    return UnitCounts(np.stack(wrong, 1), np.stack(total, 1))


def excess_losses(counts: UnitCounts, risk: float, max_units: int) -> Floats:
    """Return the excess (D, K) of each document's loss over the risk, in [-risk, 1 - risk].

    A document with n units weighs min(n, max_units) / max_units. The mean is at most 0 where the
    weighted mean of the documents' shares of wrong units is at most the risk: that of the corpus,
    if no document has more than max_units units.
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
    is_below = means < risk
    p[is_below] = np.minimum(p, math.e * binomial_p_values(excess, risk))[is_below]
    return p


def binomial_p_values(excess: Floats, risk: float) -> Floats:
    """Return exact p-values (K,) for losses of 0 or 1: of a binomial tail, rounded up. O(D K)."""
    n, means = _mean_losses(excess, risk)
    # Against rounding: the mean of whole numbers times n is a whole number.
    wrong = np.ceil(n * means - 1e-9).astype("int64")
    return np.array([binomial_tail(*counts, risk) for counts in zip(wrong, n, strict=True)])


def binomial_tail(wrong: int, n: int, risk: float) -> float:
    """Return the probability of at most this number of wrong documents of n. O(n)."""
    log_factorials = np.append(0, np.log(np.arange(1, n + 1)).cumsum())
    k = np.arange(min(wrong, n) + 1)
    logs = log_factorials[n] - log_factorials[k] - log_factorials[n - k]
    logs += k * math.log(risk) + (n - k) * math.log1p(-risk)
    return float(min(1, np.exp(logs).sum()))


def binomial_interval(wrong: int, n: int, level: float = 0.05) -> tuple[float, float]:
    """Return the bounds of a probability, by Clopper and Pearson (1934), by bisection."""

    def bound(tail: Callable[[float], float]) -> float:
        low, high = 1e-12, 1 - 1e-12
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(middle) > level / 2 else (low, middle)
        return low

    upper = 1.0 if wrong == n else bound(lambda risk: binomial_tail(wrong, n, risk))
    lower = 0.0 if wrong == 0 else 1 - bound(lambda right: binomial_tail(n - wrong, n, right))
    return lower, upper


def betting_p_values(excess: Floats, risk: float, level: float) -> Floats:
    """Return p-values (K,) of the same hypotheses from bets that the excess is below 0. O(D K).

    Waudby-Smith and Ramdas (2023). A document with the excess x multiplies the capital by 1 - bet
    x, and p is 1 / the largest capital (Ville). Half of it follows the bets of aGRAPA, half the
    plug-in bets for this level; both know earlier documents only, in a fixed random order. The
    bound uses the small variance of documents with small weights.
    """
    x = -excess[np.random.default_rng(0).permutation(len(excess))]
    counts = (x != 0).cumsum(0)
    n = counts[-1] if len(x) else np.zeros(x.shape[1])
    # The statistics of the documents before each one, and of one document with a guessed spread.
    spread = risk * (1 - risk) / 4
    before = counts - (x != 0)
    mean = (x.cumsum(0) - x) / (before + 1)
    variance = (spread + (x**2).cumsum(0) - x**2) / (before + 1) - mean**2
    variance = variance.clip(min=1e-9 * spread)
    most = 0.9 / (1 - risk)
    bets = (
        mean / (variance + mean**2),
        np.sqrt(2 * math.log(1 / level) / (n.clip(min=1) * variance)),
    )
    capitals = [np.log1p(bet.clip(0, most) * x).cumsum(0) for bet in bets]
    return np.exp(math.log(2) - np.logaddexp(*capitals).max(0, initial=math.log(2)))


def _mean_losses(excess: Floats, risk: float) -> tuple[NDArray[np.int64], Floats]:
    """Return the number of documents with units, and their mean excess + risk, (K,) each."""
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
    budget plus what the rejections directly before it hand on. The probability to reject any true
    hypothesis is at most the sum of the budgets.
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


def estimate_documents(
    excess: Floats, risk: float, budgets: Floats, betting: bool = False
) -> int | None:
    """Return the number of documents like these that rejects a hypothesis in half of the cases.

    The smallest number of the hypotheses with a budget of their own. Each one counts half a wrong
    document more than it has, because the best of several thresholds looks better than it is. None
    if it is above MAX_DOCUMENTS. excess: (D, K). budgets: (K,), see `last_certified`. betting: for
    `betting_p_values`.
    """
    excess, budgets = excess[:, budgets > 0], budgets[budgets > 0]
    n, means = _mean_losses(excess, risk)
    if betting:
        heaviest = (-excess).max(0, initial=0) / risk
        bets = np.geomspace(1e-3, 0.9, 25)[:, None] / (1 - risk)
        of_wrong = np.log1p(-bets * (1 - risk) * heaviest.clip(max=1)) / 2
        growth = (of_wrong + [np.log1p(-bet * excess).sum(0) for bet in bets]).max(0)
    else:
        growth = (n + 0.5) * _divergence((n * means + 0.5) / (n + 0.5), risk)
    needed = (np.log(1 / budgets) * (len(excess) + 0.5) / growth.clip(min=1e-12)).min()
    return math.ceil(needed) if needed <= MAX_DOCUMENTS else None
