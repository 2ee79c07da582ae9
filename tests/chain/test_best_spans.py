"""The best set of spans, against enumeration."""

from itertools import combinations

import numpy as np
import pytest

from bcrf.chain import best_spans


def enumerate_best(starts, ends, gains, depth):
    """Return the largest sum of gains of all sets with at most `depth` spans at each token."""
    best = 0.0
    for n in range(1, len(starts) + 1):
        for chosen in combinations(range(len(starts)), n):
            if deepest(starts, ends, chosen) <= depth:
                best = max(best, sum(gains[i] for i in chosen))
    return best


def deepest(starts, ends, chosen):
    tokens = [token for i in chosen for token in range(starts[i], ends[i])]
    return max(map(tokens.count, tokens), default=0)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_sum_is_the_largest_of_all_sets(depth):
    rng = np.random.default_rng(depth)
    for _ in range(60):
        n = rng.integers(0, 9)
        starts = rng.integers(0, 8, n)
        ends = starts + rng.integers(1, 5, n)
        gains = rng.normal(0.2, 0.4, n)
        chosen = best_spans(starts, ends, gains, depth)
        assert deepest(starts, ends, chosen) <= depth
        expected = enumerate_best(starts, ends, gains, depth)
        assert gains[chosen].sum() == pytest.approx(expected, abs=1e-9)
        assert chosen.tolist() == sorted(chosen)


def test_neighbours_do_not_overlap():
    starts, ends = np.array([0, 2, 4]), np.array([2, 4, 6])
    assert best_spans(starts, ends, np.full(3, 0.1)).tolist() == [0, 1, 2]


def test_a_span_without_gain_is_left_out():
    one = np.array([0])
    assert best_spans(one, one + 1, np.array([0.0])).tolist() == []
    assert best_spans(one[:0], one[:0], np.zeros(0)).tolist() == []
