"""Weights that underflow in one part of a sequence, and count in another."""

import numpy as np
import pytest
from oracles import reference
from pairwise import pairwise
from paths import PATHS, Forced
from test_kernels import doubles

from bcrf.kernels import BregmanOptions, cuda

# Half the logarithm of the smallest normal number is -44 in float32, and -354 in float64. The
# logarithm of the smallest overlap is -55, or -461.
DROPS = [("float32", drop) for drop in (25, 43, 44, 45, 54, 55, 56, 60, 80, 100, 1e4)]
DROPS += [("float64", drop) for drop in (220, 353, 354, 355, 400, 460, 461, 600, 800, 1e4)]
SHAPES = [(1, 4), (3, 6), (40, 50), (12, 2100)]
NONE = -np.inf


def lose_in_turn(dtype, drop, size, length, where, *, shared=True, backward=False):
    """Two labelings of equal score, which lose `drop` in turn. where: how the second one does it.

    backward: in the last tokens, in reverse order, instead of the first ones.
    """
    if where == "unary":
        unary = np.array([[0, -drop], [-drop, 0], [0, -drop], [-drop, 0]])
        unary, transitions = np.vstack([unary, np.zeros((length - 4, 2))]), [[0, NONE], [NONE, 0]]
    else:
        unary = np.array([[0, 0, NONE], [-drop, 0, NONE], [0, 0, NONE], [-drop, NONE, 0]])
        unary = np.vstack([unary, np.tile([[0, NONE, 0]], (length - 4, 1))])
        transitions = [[0, NONE, NONE], [NONE, -drop, 0], [NONE, NONE, 0]]
    unary, transitions = unary.astype(dtype), np.array(transitions, dtype)
    if backward:
        unary, transitions = unary[::-1], np.ascontiguousarray(transitions.T)
    if not shared:
        transitions = np.tile(transitions, (size * length, 1, 1))
    return np.tile(unary, (size, 1)), transitions, np.full(size, length, "int32"), -2 * drop


def halves(unary):
    """The marginals of both labelings: half for each tag that one of them has."""
    return np.where(unary > NONE, 0.5, 0)


@pytest.mark.parametrize(
    "problem, path, shape, where, backward",
    pairwise(DROPS, PATHS, SHAPES, ["unary", "transitions"], [False, True]),
)
def test_two_labelings_are_equally_likely(problem, path, shape, where, backward):
    native = Forced(path)
    (dtype, drop), (size, length) = problem, shape
    *arrays, score = lose_in_turn(dtype, drop, size, length, where, backward=backward)
    for edges in "sum", "each":
        found = native.sum_product(np, *arrays, edges, True)
        np.testing.assert_allclose(found.unary, halves(arrays[0]), atol=1e-4)
        np.testing.assert_allclose(found.value - score, np.log(2), atol=1e-2)
    leaving = found.edges.sum(2).reshape(size, length, -1)
    np.testing.assert_allclose(
        leaving[:, :-1], halves(arrays[0]).reshape(leaving.shape)[:, :-1], atol=1e-4
    )
    assert not leaving[:, -1].any()
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


@pytest.mark.parametrize(
    "problem, path, shape, backward", pairwise(DROPS[::3], PATHS, SHAPES, [False, True])
)
def test_the_loss_of_one_of_two_labelings(problem, path, shape, backward):
    native = Forced(path)
    (dtype, drop), (size, length) = problem, shape
    *arrays, _ = lose_in_turn(dtype, drop, size, length, "unary", backward=backward)
    found = native.labeling_loss(np, *arrays, np.zeros(size * length, "int32"), None)
    np.testing.assert_allclose(found.value, np.log(2), atol=1e-2)
    np.testing.assert_allclose(found.unary, np.tile([-0.5, 0.5], (size * length, 1)), atol=1e-4)
    edges = np.diag([-0.5, 0.5]) * size * (length - 1)
    np.testing.assert_allclose(found.edges, edges, atol=1e-4 * size * length)


@pytest.mark.parametrize(
    "problem, shape, shared, where, backward",
    pairwise(
        DROPS[::3],
        [(2, 4), (3, 6), (1, 600)],
        [False, True],
        ["unary", "transitions"],
        [False, True],
    ),
)
def test_two_labelings_are_equally_likely_on_a_gpu(host, problem, shape, shared, where, backward):
    (dtype, drop), (size, length) = problem, shape
    *arrays, score = lose_in_turn(
        dtype, drop, size, length, where, shared=shared, backward=backward
    )
    found = cuda.sum_product(np, *arrays, "sum" if shared else "each", True)
    np.testing.assert_allclose(found.unary, halves(arrays[0]), atol=1e-4)
    np.testing.assert_allclose(found.value - score, np.log(2), atol=1e-2)


@pytest.mark.parametrize(
    "problem, size, bound",
    pairwise([*DROPS[::5], ("float64", 300), ("float64", 340)], [1, 16], ["upper", "lower"]),
)
def test_the_only_labeling_has_an_unlikely_tag(path_backend, problem, size, bound):
    """Its tags have large factors, whose products are out of range."""
    dtype, drop = problem
    unary = np.tile(np.array([[0, -drop]], dtype), (3 * size, 1))
    transitions = np.array([[NONE, NONE], [NONE, 0]], dtype)
    options = BregmanOptions(4, 1.25, None, bound)
    found = path_backend.bregman(np, unary, transitions, np.full(size, 3, "int32"), options, "sum")
    np.testing.assert_allclose(found.value, -3 * drop, rtol=1e-6)
    np.testing.assert_allclose(found.unary, [[0, 1]] * (3 * size), atol=1e-6)


@pytest.mark.parametrize("path", PATHS)
def test_bounds_of_unlikely_lattices(path):
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
            many = np.tile(unary, (2, 1)), transitions, np.repeat(lengths, 2)
            found = Forced(path).bregman(np, *many, options, "none")
        np.testing.assert_allclose(found.value, expected.value[0], rtol=1e-5)
