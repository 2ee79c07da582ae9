"""Figures of sources: their estimated precision and recall, with intervals."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcrf.chain.votes import PRIORS

TELLS = 8, 4
"""Votes tell no more of precision and recall than this number of gold spans: sources share errors,
and entities that no source finds lower the recall. Chosen with gold of the validation parts of four
corpora, so that 19 of 20 intervals have the truth, also with halves of the sources."""


class Share(NamedTuple):
    """The share `value` of `n`, with its 95% interval by Wilson (1927); None of nothing.

    true: the share on gold documents, None without.
    """

    n: float
    value: float | None
    low: float | None
    high: float | None
    true: float | None


class Figures(NamedTuple):
    """Estimated figures of a source for a label: of its spans, and of the entities it looked at.

    Recall is a share of the entities of the result. It is too high: some entities have no source.
    """

    label: str
    precision: Share
    recall: Share


def estimate_share(
    tells: int,
    is_told: bool,
    found: NDArray[np.float64],
    guessed: NDArray[np.float64],
    true: NDArray[np.float64],
) -> Share:
    """Return an estimated share with its interval. See `Judge`.

    tells: see `TELLS`. is_told: whether other sources tell the share; gold always does. guessed,
    true: the estimate on gold documents, and their truth. It corrects the estimate by its mean
    error there (Angelopoulos et al. 2023, "Prediction-powered inference"), less of it for few.
    """
    n, right = found.tolist()
    n_gold, exact = float(true[0]), float(true[1] / true[0]) if true[0] else None
    if n < 1e-6 or not (is_told or n_gold):
        return Share(n, None, None, None, exact)
    p, m, z = min(1.0, right / n), min(n, n_gold + tells), 1.96
    if exact is not None:
        error = exact - float(guessed[1] / max(guessed[0], 1e-6))
        p = min(max(p + error * n_gold / (n_gold + PRIORS.spans), 0.0), 1.0)
    middle, spread = p + z * z / (2 * m), z * math.sqrt(p * (1 - p) / m + z * z / (4 * m * m))
    scale = 1 + z * z / m
    return Share(
        n, p, max((middle - spread) / scale, 0.0), min((middle + spread) / scale, 1.0), exact
    )
