"""Semirings, and the forward algorithm over any of them.

The forward algorithm multiplies the scores of each labeling and sums over labelings. The semiring
decides what the total means: the log-partition, the best score, the number of labelings, or an
expectation such as the entropy. Elements are numbers, or pairs of numbers. Weights are elements as
logarithms, so large scores do not overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from bcrf.chain import Potentials

Element = Any
INF = float("inf")


@dataclass(frozen=True)
class Semiring:
    """A set of elements with addition and multiplication.

    plus: associative and commutative, with the neutral element `zero`.
    times: associative, with the neutral element `one`. It distributes over `plus`, and `zero`
        annihilates.
    lift: maps the score of an arc to an element, and -inf, which forbids an arc, to `zero`.
    """

    name: str
    zero: Element
    one: Element
    plus: Callable[[Element, Element], Element]
    times: Callable[[Element, Element], Element]
    lift: Callable[[float], Element]

    def sum(self, elements: Iterable[Element]) -> Element:
        """Add elements up with `plus`."""
        return reduce(self.plus, elements, self.zero)


def forward(semiring: Semiring, potentials: Potentials) -> list[Element]:
    """Return the total of each sequence: the sum over labelings of the product of lifted scores.

    The forward algorithm in plain Python, O(N T^2), for small problems and as an oracle.
    """
    totals = []
    for unary, edges in score_lists(potentials):
        tags = range(potentials.unary.shape[1])
        alpha = [semiring.lift(score) for score in unary[0]] if unary else [semiring.one]
        for w, scores in zip(edges, unary[1:], strict=True):
            alpha = [
                semiring.times(
                    semiring.sum(semiring.times(alpha[u], semiring.lift(w[u][v])) for u in tags),
                    semiring.lift(scores[v]),
                )
                for v in tags
            ]
        totals.append(semiring.sum(alpha))
    return totals


def score_lists(potentials: Potentials) -> Iterator[tuple[list, list]]:
    """Yield the unary scores (L, T) and edge scores (L - 1, T, T) of each sequence, as lists."""
    start, transitions = 0, potentials.transitions
    for length in potentials.lengths.tolist():
        stop, n_edges = start + length, max(length - 1, 0)
        edges = (
            [transitions.tolist()] * n_edges
            if transitions.ndim == 2
            else transitions[start : start + n_edges].tolist()
        )
        yield potentials.unary[start:stop].tolist(), edges
        start = stop


def _log_plus(x: float, y: float) -> float:
    low, high = min(x, y), max(x, y)
    return high if low == -INF else high + math.log1p(math.exp(low - high))


def _expectation_plus(x: Element, y: Element) -> Element:
    if y[0] > x[0]:
        x, y = y, x
    if y[0] == -INF:
        return x
    weight = math.exp(y[0] - x[0])
    return x[0] + math.log1p(weight), (x[1] + weight * y[1]) / (1 + weight)


def _expectation_times(x: Element, y: Element) -> Element:
    weight = x[0] + y[0]
    return weight, x[1] + y[1] if weight > -INF else 0.0


def _expectation_lift(score: float) -> Element:
    return score, -score if score > -INF else 0.0


LOG = Semiring(
    "log",
    zero=-INF,
    one=0.0,
    plus=_log_plus,
    times=lambda x, y: x + y,
    lift=lambda score: score,
)

MAX = Semiring(
    "max",
    zero=-INF,
    one=0.0,
    plus=max,
    times=lambda x, y: x + y,
    lift=lambda score: score,
)

MIN = Semiring(
    "min",
    zero=INF,
    one=0.0,
    plus=min,
    times=lambda x, y: x + y,
    lift=lambda score: score if score > -INF else INF,
)
"""The tropical semiring. Scores are costs, and the total is the least cost of a labeling."""

BOTTLENECK = Semiring(
    "bottleneck",
    zero=-INF,
    one=INF,
    plus=max,
    times=min,
    lift=lambda score: score,
)
"""The value of a labeling is its smallest score, and the total is the largest such value."""

COUNTING = Semiring(
    "counting",
    zero=0,
    one=1,
    plus=lambda x, y: x + y,
    times=lambda x, y: x * y,
    lift=lambda score: int(score > -INF),
)

EXPECTATION = Semiring(
    "expectation",
    zero=(-INF, 0.0),
    one=(0.0, 0.0),
    plus=_expectation_plus,
    times=_expectation_times,
    lift=_expectation_lift,
)
"""The expectation semiring (Li and Eisner 2009). A pair <x, y> is the element (log x, y / x), which
does not overflow. With arcs <w, -w log w> the total <Z, H_u> is (log Z, H_u / Z). The sum of these
two numbers is the entropy of the labelings, in nats."""
