"""Real values as features: each log-odds as the steps that it exceeds.

A linear chain has boolean features. The log-odds of a label, log p / (1 - p), has a feature for
each of `EDGES` that it exceeds. Steps add up, so the weights of a label are a curve over its
log-odds, which learning bends where needed. They start as the line of `find_line`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EDGES = np.array([-6.0, -3.0, -1.0, 1.0, 3.0])
_LOGS = -np.log1p(np.exp(-EDGES)).astype("float32")
SILENT = "silent"
"""The value of a token without scores."""


def find_steps(values: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return tokens and values (M,), in order, of log-probabilities (N, L).

    The values are indices in `name_steps`.
    """
    silent = np.isnan(values[:, :1])
    reached = (values[:, :, None] > _LOGS).reshape(len(values), -1)
    tokens, steps = np.hstack([reached, silent]).nonzero()
    return tokens, steps


def name_steps(labels: Sequence[str]) -> list[str]:
    """Return the names of the steps of each label, and `SILENT`."""
    return [*(f"{label}>{edge:+g}" for label in labels for edge in EDGES), SILENT]


def find_line(odds: bool) -> NDArray[np.float64]:
    """Return the log-probability, or the log-odds, below the first step and after each one."""
    around = np.array([EDGES[0] - 4, *EDGES, EDGES[-1] + 4])
    middles = (around[1:] + around[:-1]) / 2
    return middles if odds else -np.log1p(np.exp(-middles))
