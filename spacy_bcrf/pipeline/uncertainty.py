"""Uncertainty of documents, for active learning (Settles 2012, ch. 2).

Measures of a whole document sort by length. The measures per token and per entity do not.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, Potentials, entropy
from bcrf.chain.search import nbest_arrays
from bcrf.kernels import Array

MEASURES = ("entropy", "confidence", "margin")
UNITS = ("token", "entity", "document")

MIN_CANDIDATE = 0.05
"""Smallest probability of a span that counts as a possible entity."""


def measure_labelings(posterior: Potentials, by: str, per: str, n_chains: int = 1) -> Array:
    """Return uncertainties (B,) of labelings of all chains side by side, 0 for an empty document.

    entropy: in nats. confidence: 1 - p(best labeling). margin: 1 - (p(best) - p(second best)). per:
    "document", or "token": the entropy and log p of each token (Shen et al. 2018), and the mean
    margin of its tags.
    """
    xp, n = posterior.xp, posterior.lengths[::n_chains].clip(min=1)
    size = n if per == "token" else 1
    if by == "entropy":
        return entropy(posterior).reshape(-1, n_chains).sum(axis=1) / size
    if by == "confidence":
        return 1 - xp.exp(_log_probabilities(posterior, 1, n_chains)[:, 0] / size)
    if per == "document":
        first, second = xp.exp(_log_probabilities(posterior, 2, n_chains)).T
        return 1 - (first - second)
    marginals = xp.sort(CRF().marginals(posterior).unary, axis=1)
    second = marginals[:, -2] if marginals.shape[1] > 1 else 0
    values = 1 - (marginals[:, -1] - second)
    sums = xp.bincount(posterior.segment_ids, values, len(posterior.lengths))
    return sums.reshape(-1, n_chains).mean(axis=1) / n


Span = tuple[int, int, Any, float]
"""First token, one past the last token, label, probability."""


def measure_entities(
    sequences: Sequence[Sequence[Span]], by: str, n_chains: int = 1
) -> NDArray[np.float64]:
    """Return uncertainties (B,), the mean over possible entities, 0 for a document without one.

    sequences: spans of at least MIN_CANDIDATE of each document and chain. A possible entity is the
    most probable span of a chain and all spans that overlap it; then of the others. Its outcomes
    are these spans, or none. entropy: of these, in nats. confidence: 1 - p(best). margin: 1 -
    (p(best) - p(second best)).
    """
    measure = _OF_OUTCOMES[by]
    found = [[measure(p) for p in _find_outcomes(spans)] for spans in sequences]
    by_doc = (found[i : i + n_chains] for i in range(0, len(found), n_chains))
    lists = (list(chain.from_iterable(doc)) for doc in by_doc)
    return np.array([sum(values) / max(1, len(values)) for values in lists])


def _find_outcomes(spans: Sequence[Span]) -> list[NDArray[np.float64]]:
    """Return the probabilities of the outcomes of each possible entity, in descending order."""
    left = sorted(spans, key=lambda span: -span[3])
    found = []
    while left:
        start, end = left[0][:2]
        p = np.array([s[3] for s in left if s[0] < end and start < s[1]])
        left = [s for s in left if s[1] <= start or end <= s[0]]
        # Spans that overlap the best one, but not each other, are not exclusive.
        p = np.append(p, max(0.0, 1 - p.sum()))
        found.append(np.sort(p / p.sum())[::-1])
    return found


def _entropy_of(p: NDArray[np.float64]) -> float:
    some = p[p > 0]
    return float(-(some * np.log(some)).sum())


_OF_OUTCOMES: dict[str, Callable[[NDArray[np.float64]], float]] = {
    "entropy": _entropy_of,
    "confidence": lambda p: float(1 - p[0]),
    "margin": lambda p: float(1 - (p[0] - p[1])),
}


def _log_probabilities(posterior: Potentials, n: int, n_chains: int) -> Array:
    """Return the log-probabilities (B, n) of the n <= 2 best labelings, -inf for missing ones."""
    _, scores = nbest_arrays(posterior, n)
    logs = (scores - CRF().log_partition(posterior)[:, None]).clip(max=0)
    by_chain = logs.reshape(-1, n_chains, n)
    best = by_chain[:, :, 0].sum(axis=1)
    # The second best labeling differs in the one chain where that costs least.
    losses = (by_chain - by_chain[:, :, :1]).max(axis=1)
    return best[:, None] + losses
