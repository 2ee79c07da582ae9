"""Real values as features: each log-odds as the steps that it reaches.

A linear chain has boolean features. The log-odds of a label, log p / (1 - p), has a feature for
each of `EDGES` that it exceeds. Steps add up, so the weights of a label are a curve over its
log-odds, which learning bends where needed. The weights of `step_weights` are a line: the sum is
log p, up to half a step. Few steps learn better than many: with 15 of them the chain leans on the
source too much, and F was 2.0 lower on Presidio's sentences, 0.5 on English web text.
"""

import numpy as np
from numpy.typing import NDArray

EDGES = np.array([-4.0, 0.0, 2.0])
SILENT = "silent"
"""The value of a token without scores."""


def find_levels(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the number of steps (N, L) that log-probabilities reach, 0 for NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = values - np.log(-np.expm1(values))
    # NaN would sort after all edges.
    return np.searchsorted(EDGES, np.nan_to_num(odds, nan=-np.inf))


def level_names(label: str) -> list[str]:
    return [f"{label}>{edge:+g}" for edge in EDGES]


def step_weights() -> NDArray[np.float32]:
    """Return the weight of each step, so that the sum is the log-probability but for a constant."""
    around = np.array([EDGES[0] - 4, *EDGES, EDGES[-1] + 4])
    middles = (around[1:] + around[:-1]) / 2
    return np.diff(-np.log1p(np.exp(-middles))).astype("float32")
