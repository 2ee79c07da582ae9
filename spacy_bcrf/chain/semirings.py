"""Semirings, and the forward pass over any of them.

In a semiring labelings are weighted by products of scores and gathered by sums; which question of
the potentials that answers depends on the semiring: the log-partition, the best score, the number
of labelings, expectations and with them the entropy. Elements are floats, or pairs of floats.
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
    """plus is associative and commutative, times associative and distributes over it; zero is
    neutral in plus and annihilates in times, one is neutral in times.

    lift: from the score of an arc, -inf if it is forbidden, to an element.
    not_best_first: why best-first search is wrong in it; empty if it is right.
    """

    name: str
    zero: Element
    one: Element
    plus: Callable[[Element, Element], Element]
    times: Callable[[Element, Element], Element]
    lift: Callable[[float], Element]
    not_best_first: str

    def sum(self, elements: Iterable[Element]) -> Element:
        return reduce(self.plus, elements, self.zero)


def forward(semiring: Semiring, potentials: Potentials) -> list[Element]:
    """The sum over labelings of the product of their lifted scores, one for each sequence.

    The forward algorithm, O(N T^2), in plain Python: for small problems and as an oracle.
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
    not_best_first="its sum adds up all labelings, and the best-first search follows only one",
)

MAX = Semiring(
    "max",
    zero=-INF,
    one=0.0,
    plus=max,
    times=lambda x, y: x + y,
    lift=lambda score: score,
    # Scores may be positive, but subtracting each edge's maximum mends that.
    not_best_first="",
)

COUNTING = Semiring(
    "counting",
    zero=0,
    one=1,
    plus=lambda x, y: x + y,
    times=lambda x, y: x * y,
    lift=lambda score: int(score > -INF),
    not_best_first="extending a path can raise its count, and all labelings count",
)

EXPECTATION = Semiring(
    "expectation",
    zero=(0.0, 0.0),
    one=(1.0, 0.0),
    plus=_expectation_plus,
    times=_expectation_times,
    lift=_expectation_lift,
    not_best_first="its product can raise a path's value, as by a weight above 1, and its "
    "elements have no order",
)
"""Li and Eisner (2009). With arcs <w, -w log w> the total is <Z, H_u>, and the entropy of the
labelings H_u / Z + log Z."""
