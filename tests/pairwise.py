"""Pairwise samples of cross products of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return a sample of the cross product in which each pair of values of two parameters occurs.

    Greedy: each case covers as many missing pairs as possible. The sample is always the same.
    """
    cases = product(*(range(len(values)) for values in parameters))
    pairs = {case: _pairs(case) for case in cases}
    missing = set().union(*pairs.values())
    sample = []
    while missing:
        best = max(pairs, key=lambda case: len(missing & pairs[case]))
        missing -= pairs[best]
        sample.append(tuple(values[i] for values, i in zip(parameters, best, strict=True)))
    return sample


def _pairs(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    return set(combinations(enumerate(case), 2))
