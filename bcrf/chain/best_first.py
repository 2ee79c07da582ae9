"""Dijkstra's algorithm over any semiring that allows it.

x is better than y if x + y = x. Best-first search finds the best labeling if, for all elements that
occur (Mohri 2002; Huang 2008):

- `plus` is commutative, associative and selective: x + y is x or y. So the elements have an order.
  `zero` is neutral.
- `times` is associative and distributes over `plus`. So extending two prefixes by the same arc
  keeps their order. `one` is neutral, and `zero` annihilates.
- `times` is superior: one + x = one. So no arc improves a prefix.

>>> import numpy as np
>>> from bcrf.chain import Potentials, best_first, semirings
>>> batch = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
>>> best_first.best_first(semirings.MAX, batch)
[([0, 1], 2.0)]
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key, reduce
from itertools import chain, pairwise, product

from .potentials import Potentials
from .semirings import INF, Element, Semiring, score_lists

# Elements of the sample. Axioms of three elements are checked for each triple.
SAMPLE_SIZE = 8

# By token: [from][to], with one `from` at the first token. The factors of an arc are the scores of
# the transition, if there is one, and of the tag that it leads to.
Factors = list[list[list[tuple[float, ...]]]]


def best_first(semiring: Semiring, potentials: Potentials) -> list[tuple[list[int], Element]]:
    """Return the best labeling of each sequence and its product; `zero` if none is allowed.

    Plain Python, O(N T log(N T) + N T^2), for small problems. Each arc is checked for superiority,
    and a sample of the arcs for the other axioms. If an arc improves a prefix, but `lift` maps sums
    to products, the search subtracts the best score of the arcs into each token from all of them.
    This keeps the order of labelings.

    Raises ValueError naming the violated axiom, with an example.
    """
    sequences = [_factors(unary, edges) for unary, edges in score_lists(potentials)]
    scores = sorted({x for arc in _arcs(sequences) for x in arc if x > -INF})
    scores = scores[:: math.ceil(len(scores) / SAMPLE_SIZE) or 1]
    if violated := next(_violations(semiring, scores), None):
        raise _error(semiring, violated)
    can_shift = _maps_sums_to_products(semiring, scores)
    found = []
    for factors in sequences:
        tags = _search(semiring, [_elements(semiring, into, can_shift) for into in factors])
        arcs = (into[u][v] for into, (u, v) in zip(factors, pairwise([0, *tags]), strict=False))
        total = reduce(semiring.times, (_lift(semiring, arc) for arc in arcs), semiring.one)
        found.append((tags, total if len(tags) == len(factors) else semiring.zero))
    return found


def _factors(unary: list[list[float]], edges: list[list[list[float]]]) -> Factors:
    first: Factors = [[[(score,) for score in unary[0]]]] if unary else []
    return first + [
        [list(zip(row, scores, strict=True)) for row in w]
        for w, scores in zip(edges, unary[1:], strict=True)
    ]


def _arcs(sequences: Sequence[Factors]) -> Iterator[tuple[float, ...]]:
    return (arc for factors in sequences for into in factors for row in into for arc in row)


def _lift(semiring: Semiring, arc: tuple[float, ...]) -> Element:
    return reduce(semiring.times, map(semiring.lift, arc))


def _elements(
    semiring: Semiring, into: list[list[tuple[float, ...]]], can_shift: bool
) -> list[list[Element]]:
    """Return the elements [from][to] of the arcs into a token.

    can_shift: subtract the best score if an element improves a prefix.

    Raises ValueError if an element still improves a prefix.
    """
    elements = [[_lift(semiring, arc) for arc in row] for row in into]
    if _improving(semiring, elements) and can_shift:
        sums = [[sum(arc) for arc in row] for row in into]
        best = reduce(
            lambda x, y: x if _is_better(semiring, semiring.lift(x), semiring.lift(y)) else y,
            chain.from_iterable(sums),
        )
        elements = [[semiring.lift(x - best) for x in row] for row in sums]
    for x in _improving(semiring, elements):
        raise _error(
            semiring, f"times is not superior: one = {semiring.one}, but plus(one, {x}) = {x}"
        )
    return elements


def _is_better(semiring: Semiring, x: Element, y: Element) -> bool:
    return semiring.plus(x, y) == x


def _improving(semiring: Semiring, elements: list[list[Element]]) -> list[Element]:
    return [x for row in elements for x in row if not _is_better(semiring, semiring.one, x)]


def _search(semiring: Semiring, elements: list[list[list[Element]]]) -> list[int]:
    """Return the tags of the best labeling, [] if none is allowed."""

    def compare(x: Element, y: Element) -> int:
        return 0 if x == y else -1 if _is_better(semiring, x, y) else 1

    key = cmp_to_key(compare)
    queue = [
        (key(x), 0, tag, x, -1)
        for tag, x in enumerate(elements[0][0] if elements else [])
        if x != semiring.zero
    ]
    heapq.heapify(queue)
    before: dict[tuple[int, int], int] = {}
    while queue:
        _, i, tag, x, previous = heapq.heappop(queue)
        if (i, tag) in before:
            continue
        before[i, tag] = previous
        if i + 1 == len(elements):
            tags = [tag]
            for j in range(i, 0, -1):
                tags.append(before[j, tags[-1]])
            return tags[::-1]
        for to, arc in enumerate(elements[i + 1][tag]):
            extended = semiring.times(x, arc)
            if extended != semiring.zero and (i + 1, to) not in before:
                heapq.heappush(queue, (key(extended), i + 1, to, extended, tag))
    return []


def _violations(semiring: Semiring, scores: Sequence[float]) -> Iterator[str]:
    """Yield the violated axioms, with an example of each."""
    plus, times, zero, one = semiring.plus, semiring.times, semiring.zero, semiring.one
    same = _equality(scores)
    if (x := semiring.lift(-INF)) != zero:
        yield f"lift does not map -inf, a forbidden arc, to zero: lift(-inf) = {x}, zero = {zero}"
    sample = [zero, one, *map(semiring.lift, scores)]
    for x in sample:
        for name, y, expected in (
            ("zero is not neutral: plus(zero, {})", plus(zero, x), x),
            ("one is not neutral: times(one, {})", times(one, x), x),
            ("one is not neutral: times({}, one)", times(x, one), x),
            ("zero does not annihilate: times(zero, {})", times(zero, x), zero),
            ("zero does not annihilate: times({}, zero)", times(x, zero), zero),
        ):
            if not same(y, expected):
                yield f"{name.format(x)} = {y}"
    for x, y in product(sample, repeat=2):
        total = plus(x, y)
        if not (same(total, x) or same(total, y)):
            yield f"plus is not selective: plus({x}, {y}) = {total}, which is neither"
        if not same(total, other := plus(y, x)):
            yield f"plus is not commutative: plus({x}, {y}) = {total}, plus({y}, {x}) = {other}"
    for x, y, z in product(sample, repeat=3):
        for name, left, right in (
            ("plus is not associative", plus(plus(x, y), z), plus(x, plus(y, z))),
            ("times is not associative", times(times(x, y), z), times(x, times(y, z))),
            ("times is not distributive", times(x, plus(y, z)), plus(times(x, y), times(x, z))),
            ("times is not distributive", times(plus(y, z), x), plus(times(y, x), times(z, x))),
        ):
            if not same(left, right):
                yield f"{name}: for {x}, {y}, {z} the sides are {left} and {right}"


def _maps_sums_to_products(semiring: Semiring, scores: Sequence[float]) -> bool:
    same = _equality(scores)
    return same(semiring.lift(0.0), semiring.one) and all(
        same(semiring.lift(x + y), semiring.times(semiring.lift(x), semiring.lift(y)))
        for x, y in product(scores, repeat=2)
    )


def _equality(scores: Sequence[float]) -> Callable[[Element, Element], bool]:
    """Return whether two elements are equal up to the rounding of sums of these scores."""
    tolerance = 1e-9 * max(1, *map(abs, scores)) if scores else 0

    def same(x: Element, y: Element) -> bool:
        if isinstance(x, tuple):
            return all(map(same, x, y))
        return bool(x == y) or math.isclose(x, y, rel_tol=1e-9, abs_tol=tolerance)

    return same


def _error(semiring: Semiring, violated: str) -> ValueError:
    return ValueError(f"best-first search is wrong for the {semiring.name} semiring: {violated}")
