"""Platt scaling of confidences by group: by predicted label, or by length of the span.

A temperature by group would give posteriors that no distribution over labelings has. So each group
maps the finished, reported confidences, after the temperature.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

GROUPINGS = ("label", "length")

MIN_GROUP = 50
"""Smallest number of predictions for a map of their own."""

_MIN_SLOPE = 0.01
# Clip p to [eps, 1 - eps] so that its logit is finite.
_EPS = 1e-6

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PlattScaling:
    """Monotone maps of confidences, p -> sigmoid(slope logit(p) + intercept) (Platt 1999).

    by: "label", or "length" in tokens. groups: labels, or lengths as strings. slopes, intercepts:
    one for each group, and a last one for all other predictions. Slopes are positive.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    by: str
    groups: tuple[str, ...]
    slopes: tuple[float, ...]
    intercepts: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.by not in GROUPINGS:
            raise ValueError(f"by must be one of {', '.join(GROUPINGS)}, got {self.by!r}")
        n = len(self.groups) + 1
        if not len(self.slopes) == len(self.intercepts) == n:
            raise ValueError(
                f"expected {n} slopes and intercepts for {n - 1} groups and all others, got "
                f"{len(self.slopes)} and {len(self.intercepts)}"
            )
        numbers = np.array([*self.slopes, *self.intercepts], dtype="float64")
        if not (np.isfinite(numbers).all() and (numbers[:n] > 0).all()):
            raise ValueError(
                "slopes must be finite and positive, and intercepts finite; got "
                f"{self.slopes} and {self.intercepts}"
            )

    @classmethod
    def fit(
        cls, by: str, confidence: Floats, correct: NDArray[np.bool_], keys: Sequence[str]
    ) -> "PlattScaling":
        """Fit the maps of M predictions. confidence, correct: (M,). keys: their labels or lengths.

        Groups of MIN_GROUP, right and wrong ones, have maps, and all others, or all, the last one.
        """
        names = np.array(keys, dtype=object)
        groups, maps = [], []
        rest = np.ones(len(names), dtype=bool)
        for group, _ in sorted(Counter(keys).items()):
            of_group = names == group
            if _is_enough(correct[of_group]):
                groups.append(group)
                maps.append(_fit_map(confidence[of_group], correct[of_group]))
                rest &= ~of_group
        others = rest if _is_enough(correct[rest]) else np.ones_like(rest)
        maps.append(_fit_map(confidence[others], correct[others]))
        slopes, intercepts = zip(*maps, strict=True)
        return cls(by, tuple(groups), slopes, intercepts)

    def apply(self, confidence: NDArray[np.floating], keys: Sequence[str]) -> Floats:
        """Return the scaled confidences (M,). keys: see `fit`."""
        index = {group: i for i, group in enumerate(self.groups)}
        at = [index.get(key, len(index)) for key in keys]
        slopes, intercepts = np.array(self.slopes)[at], np.array(self.intercepts)[at]
        return _sigmoid(slopes * _logit(confidence) + intercepts)


def _is_enough(correct: NDArray[np.bool_]) -> bool:
    return len(correct) >= MIN_GROUP and bool(correct.any()) and not correct.all()


def _fit_map(confidence: Floats, correct: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and intercept with the smallest regularized negative log-likelihood.

    The penalty ((slope - 1)^2 + intercept^2) / 2 draws small groups towards the identity.
    """
    x = np.stack([_logit(confidence), np.ones(len(confidence))])
    slope, intercept = _minimize(x, np.zeros(len(confidence)), correct, np.array([1.0, 0.0]))
    if slope < _MIN_SLOPE:
        slope = _MIN_SLOPE
        (intercept,) = _minimize(x[1:], slope * x[0], correct, np.array([0.0]))
    return slope, intercept


def _minimize(x: Floats, offset: Floats, correct: NDArray[np.bool_], prior: Floats) -> list[float]:
    """Minimize the objective of `_fit_map` over the coefficients (K,) of x (K, M).

    Newton's method. The objective is strictly convex, and backtracking makes each step a descent.
    """

    def objective(at: Floats) -> float:
        # -log p of the outcome, which is log(1 + exp(-z)) or log(1 + exp(z)).
        losses = np.logaddexp(0, np.where(correct, -1, 1) * (at @ x + offset))
        return float(losses.sum() + ((at - prior) ** 2).sum() / 2)

    at, value = prior, objective(prior)
    for _ in range(100):
        p = _sigmoid(at @ x + offset)
        hessian = (x * (p * (1 - p))) @ x.T + np.eye(len(x))
        step = np.linalg.solve(hessian, x @ (p - correct) + at - prior)
        while objective(at - step) > value and np.abs(step).max() > 1e-9:
            step /= 2
        at = at - step
        value = objective(at)
        if np.abs(step).max() < 1e-8:
            break
    return at.tolist()


def _logit(p: NDArray[np.floating]) -> Floats:
    clipped = np.asarray(p, dtype="float64").clip(_EPS, 1 - _EPS)
    return np.log(clipped) - np.log1p(-clipped)


def _sigmoid(x: Floats) -> Floats:
    return np.exp(-np.logaddexp(0, -x))
