"""Weights that underflow in one part of a sequence, and count in another."""

import numpy as np
import pytest
from oracles import reference
from test_kernels import doubles

from spacy_bcrf.kernels import BregmanOptions, cuda, native

# Half the logarithm of the smallest normal number is -44 in float32, and -354 in float64.
DROPS = [("float32", drop) for drop in [25, *range(40, 56), 60, 80, 100]]
DROPS += [("float64", drop) for drop in [220, *range(350, 360), 391, 400, 440, 460, 600, 800]]
NONE = -np.inf


def lose_in_turn(dtype, drop, size, length, where):
    """Two labelings of equal score, which lose `drop` in turn. where: how the second one does."""
    if where == "unary":
        unary = np.zeros((length, 2))
        unary[::2, 1] = unary[1::2, 0] = -drop
        transitions = [[0, NONE], [NONE, 0]]
        score = -drop * length / 2
    else:
        unary = np.array([[0, 0, NONE], [-drop, 0, NONE], [0, 0, NONE], [-drop, NONE, 0]])
        unary = np.vstack([unary, np.tile([[0, NONE, 0]], (length - 4, 1))])
        transitions = [[0, NONE, NONE], [NONE, -drop, 0], [NONE, NONE, 0]]
        score = -2 * drop
    arrays = np.tile(unary, (size, 1)).astype(dtype), np.array(transitions, dtype)
    return *arrays, np.full(size, length, "int32"), score


def halves(unary):
    """The marginals of both labelings: half for each tag that one of them has."""
    return np.where(unary > NONE, 0.5, 0)


@pytest.mark.parametrize("where", ["unary", "transitions"])
@pytest.mark.parametrize("dtype, drop", DROPS)
@pytest.mark.parametrize("size, length", [(1, 4), (3, 6), (40, 4), (40, 50), (1, 2100), (12, 2100)])
def test_two_labelings_are_equally_likely(dtype, drop, size, length, where):
    *arrays, score = lose_in_turn(dtype, drop, size, length, where)
    for edges in "sum", "each":
        found = native.sum_product(np, *arrays, edges, True)
        np.testing.assert_allclose(found.unary, halves(arrays[0]), atol=1e-4)
        np.testing.assert_allclose(found.value - score, np.log(2), atol=1e-2)
    value = native.sum_product(np, *arrays, "none", False).value
    np.testing.assert_allclose(value, found.value, rtol=1e-6)
    np.testing.assert_allclose(native.entropy(np, *arrays), np.log(2), rtol=1e-3)
    first = np.array([0], "int32")
    _, pairs = native.pair_marginals(np, *arrays, first, first)
    np.testing.assert_allclose(pairs.reshape(size, length)[:, :-1], 0.5, atol=1e-4)
    assert not pairs.reshape(size, length)[:, -1].any()
    uniform = np.random.default_rng(0).random((50, size * length))
    is_first = native.sample(np, *arrays, uniform).reshape(50, size, length) == 0
    assert (is_first == is_first[:, :, :1]).all()
    assert 0 < is_first.mean() < 1


@pytest.mark.parametrize("where", ["unary", "transitions"])
@pytest.mark.parametrize("dtype, drop", DROPS)
@pytest.mark.parametrize("size, length", [(3, 6), (1, 600)])
def test_two_labelings_are_equally_likely_on_a_gpu(host, dtype, drop, size, length, where):
    *arrays, score = lose_in_turn(dtype, drop, size, length, where)
    found = cuda.sum_product(np, *arrays, "sum", True)
    np.testing.assert_allclose(found.unary, halves(arrays[0]), atol=1e-4)
    np.testing.assert_allclose(found.value - score, np.log(2), atol=1e-2)


@pytest.mark.parametrize("size", [1, 16])
def test_bounds_of_unlikely_lattices(size):
    """Tags of little mass lose the digits of their factors, but not the value of the bound."""
    options = BregmanOptions(5, 1.25, None)
    lengths = np.array([10], "int32")
    for seed in range(60):
        rng = np.random.default_rng(seed)
        unary = rng.normal(0, 1.5, (10, 24)).astype("float32")
        transitions = rng.normal(0, 10, (24, 24)).astype("float32")
        group = rng.integers(9, size=(2, 24))
        transitions[group[0][:, None] != group[1]] = -np.inf
        with np.errstate(all="ignore"):
            expected = reference.bregman(np, *doubles(unary, transitions, lengths), options, "none")
            many = np.tile(unary, (size, 1)), transitions, np.repeat(lengths, size)
            found = native.bregman(np, *many, options, "none")
        np.testing.assert_allclose(found.value, expected.value[0], rtol=1e-5)
