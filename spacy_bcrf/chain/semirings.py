"""Semirings, and the forward algorithm over any of them.

The forward algorithm multiplies the scores of each labeling and sums over labelings. The semiring
decides what the total means: the log-partition, the best score, the number of labelings, or an
expectation such as the entropy. Elements are numbers, or pairs of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from .potentials import Potentials

Element = Any
INF = float("inf")


@dataclass(frozen=True)
class Semiring:
    """A set of elements with addition and multiplication.

    plus: associative and commutative, with the neutral element `zero`.
    times: associative, with the neutral element `one`. It distributes over `plus`, and `zero`
        annihilates.
    lift: maps the score of an arc, -inf if forbidden, to an element.
    dijkstra_error: why best-first search is wrong in this semiring; empty if it is right.
    """

    name: str
    zero: Element
    one: Element
    plus: Callable[[Element, Element], Element]
    times: Callable[[Element, Element], Element]
    lift: Callable[[float], Element]
    dijkstra_error: str

    def sum(self, elements: Iterable[Element]) -> Element:
        """Add elements up with `plus`."""
        return reduce(self.plus, elements, self.zero)


def forward(semiring: Semiring, potentials: Potentials) -> list[Element]:
    """Return the total of each sequence: the sum over labelings of the product of lifted scores.

    The forward algorithm in plain Python, O(N T^2), for small problems and as an oracle.
    """
    totals, start = [], 0
    for length in potentials.lengths.tolist():
        unary = potentials.unary[start : start + length].tolist()
        tags = range(potentials.unary.shape[1])
        alpha = [semiring.lift(score) for score in unary[0]] if length else [semiring.one]
        for i in range(1, length):
            shared = potentials.transitions.ndim == 2
            w = (
                potentials.transitions if shared else potentials.transitions[start + i - 1]
            ).tolist()
            alpha = [
                semiring.times(
                    semiring.sum(semiring.times(alpha[u], semiring.lift(w[u][v])) for u in tags),
                    semiring.lift(unary[i][v]),
                )
                for v in tags
            ]
        totals.append(semiring.sum(alpha))
        start += length
    return totals


def _log_plus(x: float, y: float) -> float:
    low, high = min(x, y), max(x, y)
    return high if low == -INF else high + math.log1p(math.exp(low - high))


def _expectation_plus(x: Element, y: Element) -> Element:
    return x[0] + y[0], x[1] + y[1]


def _expectation_times(x: Element, y: Element) -> Element:
    return x[0] * y[0], x[0] * y[1] + x[1] * y[0]


def _expectation_lift(score: float) -> Element:
    weight = math.exp(score)
    return weight, (-weight * score if weight else 0.0)


LOG = Semiring(
    "log",
    zero=-INF,
    one=0.0,
    plus=_log_plus,
    times=lambda x, y: x + y,
    lift=lambda score: score,
    dijkstra_error="its sum runs over all labelings, but best-first search follows only one",
)

MAX = Semiring(
    "max",
    zero=-INF,
    one=0.0,
    plus=max,
    times=lambda x, y: x + y,
    lift=lambda score: score,
    # `dijkstra` subtracts each edge's maximum, so positive scores are no obstacle.
    dijkstra_error="",
)

COUNTING = Semiring(
    "counting",
    zero=0,
    one=1,
    plus=lambda x, y: x + y,
    times=lambda x, y: x * y,
    lift=lambda score: int(score > -INF),
    dijkstra_error="extending a path can raise its count, and every labeling counts",
)

EXPECTATION = Semiring(
    "expectation",
    zero=(0.0, 0.0),
    one=(1.0, 0.0),
    plus=_expectation_plus,
    times=_expectation_times,
    lift=_expectation_lift,
    dijkstra_error="a weight above 1 raises the value of a longer path, and its elements "
    "have no order",
)
"""The expectation semiring (Li and Eisner 2009). With arcs <w, -w log w> the total is <Z, H_u>, and
the entropy of the labelings is H_u / Z + log Z."""
