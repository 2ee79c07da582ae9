"""Problems on each side of each numeric limit of shared/precision.hh.

The path that is forced computes a sequence on one side. On the other side, the last path does. Both
results are those of an oracle in float64.
"""

import numpy as np
import pytest
from oracles import reference
from paths import counts, forced
from test_kernels import doubles

from bcrf import kernels
from bcrf.kernels import BregmanOptions, native

NONE = -np.inf
LAST = {"float32": "float64", "float64": "rows wide"}
DTYPES = ["float32", "float64"]


def path_of(path, operation, call, *arrays):
    """Force a path. Return the path that computed the only sequence, and the result."""
    kernels.clear_path_counts()
    with forced(path), np.errstate(all="ignore"):
        result = call(np, *arrays)
    (ran,) = counts(operation, arrays[0].dtype)
    return ran, result


def posterior(path, *arrays):
    """The path and the result of forward-backward, compared with the oracle."""
    ran, found = path_of(
        path, "sum_product", lambda *a: native.sum_product(*a, "sum", True), *arrays
    )
    with np.errstate(all="ignore"):
        expected = reference.sum_product(np, *doubles(*arrays), "sum", True)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(found.unary, expected.unary, atol=1e-5)
    np.testing.assert_allclose(found.edges, expected.edges, rtol=1e-5, atol=1e-5)
    return ran


def projections(path, options, *arrays):
    """The path and the result of projections, compared with the oracle."""
    ran, found = path_of(path, "bregman", lambda *a: native.bregman(*a, options, "sum"), *arrays)
    with np.errstate(all="ignore"):
        expected = reference.bregman(np, *doubles(*arrays), options, "sum")
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.unary, expected.unary, atol=1e-4)
    return ran


def batch(dtype, unary, transitions):
    unary = np.array(unary, dtype)
    return unary, np.array(transitions, dtype), np.array([len(unary)], "int32")


@pytest.mark.parametrize("bound", ["upper", "lower"])
@pytest.mark.parametrize("path", ["lanes", "rows"])
@pytest.mark.parametrize("dtype, limit", [("float32", 60), ("float64", 600)])
def test_max_range(dtype, limit, path, bound):
    """The range of the transitions and of the tag scores of a token, together."""
    options = BregmanOptions(4, 1.25, None, bound)
    for excess in 0, 0.1:
        unary = [[0, 1], [0, limit - 10 + excess], [1, 0], [0, 2]]
        arrays = batch(dtype, unary, [[0, -10], [-5, 0]])
        ran = projections(path, options, *arrays)
        assert ran == (LAST[dtype] if excess else path)


def lose_in_turn(dtype, drop):
    """Two labelings of equal score, which lose `drop` in turn."""
    unary = [[0, -drop], [-drop, 0], [0, -drop], [-drop, 0]]
    return batch(dtype, unary, [[0, NONE], [NONE, 0]])


@pytest.mark.parametrize("path", ["lanes", "rows"])
@pytest.mark.parametrize("dtype, limit", [("float32", 1e-24), ("float64", 1e-200)])
def test_min_overlap(dtype, limit, path):
    """The largest weight is near exp(drop) / 2. Rows count that of their padding."""
    for factor, expected in (100, path), (0.1, LAST[dtype]):
        drop = -np.log(limit * factor) + np.log(2)
        assert posterior(path, *lose_in_turn(dtype, drop)) == expected


@pytest.mark.parametrize("path", ["lanes", "rows"])
@pytest.mark.parametrize("dtype, lowest", [("float32", -87.3), ("float64", -708.4)])
def test_min_normal_and_least_log(dtype, lowest, path):
    """Both labelings have a weight that is a normal number, or not."""
    for drop in -lowest - 3, -lowest - 0.5, -lowest + 0.5, -lowest + 3:
        posterior(path, *lose_in_turn(dtype, drop))
        ran, found = path_of(
            path,
            "sum_product",
            lambda *a: native.sum_product(*a, "none", False),
            *lose_in_turn(dtype, drop),
        )
        assert ran == LAST[dtype]
        np.testing.assert_allclose(found.value, -2 * drop + np.log(2), rtol=1e-5)


@pytest.mark.parametrize("path", ["lanes", "rows"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("drop", [29.9, 30.1, 45, 80, 300, 700])
def test_certain_range(dtype, path, drop):
    """Only the value: below the limit, no backward pass checks it."""
    unary = [[0, -drop, -drop], [-drop, -drop, 0], [-drop, 0, -drop], [0, -drop, -drop]]
    transitions = [[-drop, -drop, 0], [0, -drop, -drop], [-drop, -drop, 0]]
    arrays = batch(dtype, unary, transitions)
    ran, found = path_of(
        path, "sum_product", lambda *a: native.sum_product(*a, "none", False), *arrays
    )
    expected = reference.sum_product(np, *doubles(*arrays), "none", False)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-6)
    assert ran == path or drop > 30


@pytest.mark.parametrize("path", ["lanes wide", "rows wide"])
@pytest.mark.parametrize("dtype, limit", [("float32", 66), ("float64", 650)])
@pytest.mark.parametrize("beyond", [False, True])
def test_plain_range(dtype, limit, path, beyond):
    """Scores of one row of transitions are the lowest, and sequences differ in their range."""
    rng = np.random.default_rng(limit)
    transitions = rng.choice([0.0, -limit], (29, 29))
    transitions[rng.random((29, 29)) < 0.3] = NONE
    transitions[0, 0], transitions[0, 1] = 0, -limit * (1.001 if beyond else 1)
    lengths = np.full(24, 9, "int32")
    scale = np.repeat(np.resize([1.0, 30.0, 1e3, 1e5], 24), 9)
    arrays = rng.normal(size=(len(scale), 29)) * scale[:, None], transitions
    arrays = *(array.astype(dtype) for array in arrays), lengths
    call = lambda: native.sum_product(np, *arrays, "sum", True)  # noqa: E731
    kernels.clear_path_counts()
    with forced(path):
        if beyond and path == "lanes wide":
            with pytest.raises(ValueError, match="'lanes wide'"):
                call()
            return
        found = call()
    assert counts("sum_product", dtype) == {path: 24}
    expected = reference.sum_product(np, *doubles(*arrays), "sum", True)
    tolerance = 1e-1 if dtype == "float32" else 1e-6  # of scores of 1e5
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-6)
    np.testing.assert_allclose(found.unary, expected.unary, atol=tolerance)
    np.testing.assert_allclose(found.edges, expected.edges, atol=tolerance)


@pytest.mark.parametrize("digits", [5, 15, 22, 38, 42, 68, 72])
@pytest.mark.parametrize("dtype", DTYPES)
def test_negligible(dtype, digits):
    """A tag is 2^digits times as likely as each of 128 others."""
    unary = np.zeros((3, 129))
    unary[0, 1:] = -digits * np.log(2)
    # Transitions of a large range, so that weights are not plain.
    transitions = np.zeros((129, 129))
    transitions[5, 7] = -2000
    assert posterior("rows wide", *batch(dtype, unary, transitions)) == "rows wide"


@pytest.mark.parametrize("path", ["lanes", "rows", "lanes wide", "rows wide"])
@pytest.mark.parametrize("n", [255, 256, 257, 60000])
def test_most_summed(path, n):
    """Sums of many edges have the digits of float32, although each edge is rounded."""
    rng = np.random.default_rng(0)
    unary = np.tile(rng.normal(size=(1, 3)), (n, 1)).astype("float32")
    transitions = rng.normal(size=(3, 3)).astype("float32")
    arrays = unary, transitions, np.array([n], "int32")
    ran, found = path_of(
        path, "sum_product", lambda *a: native.sum_product(*a, "sum", True), *arrays
    )
    assert ran == path
    expected = native.sum_product(np, *doubles(*arrays), "sum", True)
    np.testing.assert_allclose(found.edges, expected.edges, rtol=1e-5)
    # A division by the overlap every 32 tokens keeps the marginals normalized.
    np.testing.assert_allclose(found.unary.sum(1), 1, atol=2**-18)


@pytest.mark.parametrize("path", ["lanes wide", "rows wide"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beyond", [False, True])
def test_the_range_of_exponents(path, dtype, beyond):
    """2^20 nats: 4 exponents of 2^22 have a sum of 2^24, up to which floats count."""
    low = -(2.0**20) * (1.0001 if beyond else 0.9999)
    unary = [[0, low], [low, 0], [0, low], [low, 1], [1, 2]]
    arrays = batch(dtype, unary, [[0, NONE], [NONE, 0]])
    ran, found = path_of(
        path, "sum_product", lambda *a: native.sum_product(*a, "sum", True), *arrays
    )
    expected = reference.sum_product(np, *doubles(*arrays), "sum", True)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-6)
    np.testing.assert_allclose(found.unary, expected.unary, atol=1e-5)
    holds = not beyond or (path == "rows wide" and dtype == "float64")
    assert ran == (path if holds else LAST[dtype])


@pytest.mark.parametrize("score", [-1e30, -1e100, -1e304])
def test_the_lowest_exponent(score):
    """Rows of wide doubles have the range of doubles."""
    unary = [[0, score], [score, 0], [0, 1]]
    found = native.sum_product(np, *batch("float64", unary, np.zeros((2, 2))), "sum", True)
    expected = np.log(1 + np.e)
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)
    np.testing.assert_allclose(found.unary[:2], [[1, 0], [0, 1]])
    only = [[0, NONE], [NONE, score], [0, NONE]]
    found = native.sum_product(np, *batch("float64", only, np.zeros((2, 2))), "sum", True)
    np.testing.assert_allclose(found.value, score)


@pytest.mark.parametrize(
    "drops", [[228, 228, 343], [229, 231, 229], [100, 360, 229], [459, 459, 459]]
)
def test_products_of_factors(drops):
    """Sums of weights are exp(-drop), and a product of them would underflow."""
    unary = [row for drop in drops for row in ([0, -drop], [-drop, 0])]
    arrays = batch("float64", unary, [[0, NONE], [NONE, 0]])
    for path in "rows", "lanes":
        assert posterior(path, *arrays) == path or max(drops) > 400
        found = native.sum_product(np, *arrays, "none", False)
        np.testing.assert_allclose(found.value, -sum(drops) + np.log(2), rtol=1e-12)
        projections(path, BregmanOptions(30, 1.0, None), *arrays)


@pytest.mark.parametrize("path", ["lanes", "rows"])
@pytest.mark.parametrize("dtype, limit", [("float32", 69), ("float64", 644)])
def test_max_factor(dtype, limit, path):
    """Factors grow with each iteration, and their exponents reach the limit.

    The forbidden transitions leave one labeling, whose tags have scores of different signs.
    """
    ranges = np.linspace(0.3, 0.86, 9) * limit
    rans = set()
    for r in ranges:
        unary = [[0, 0], [-r / 3, 0], [0, -r / 3], [-r / 3, 0], [0, -r / 3], [0, 0]]
        transitions = [[-2 * r / 3, 0], [-2 * r / 3, -r / 3]]
        for n_iter in 1, 6:
            options = BregmanOptions(n_iter, 1.25, None)
            rans.add(projections(path, options, *batch(dtype, unary, transitions)))
    assert path in rans


@pytest.mark.parametrize("path", ["lanes", "rows"])
@pytest.mark.parametrize("relaxation", [1.0, 1.25])
def test_a_factor_that_the_last_iteration_loses(relaxation, path):
    """It is below the smallest normal number, and the mass of its tag above 1e-3.

    Of factors that an earlier iteration loses, a later one makes NaN, which another check finds.
    """
    unary = np.zeros((5, 2))
    unary[:, 1] = -36, -58, 0, 58, 29
    arrays = batch("float32", unary, [[0, NONE], [NONE, 0]])
    assert projections(path, BregmanOptions(8, relaxation, None), *arrays) == "float64"


@pytest.mark.parametrize("mass", [1e-5, 1e-6, 1e-7, 1e-12])
@pytest.mark.parametrize("path", ["lanes", "rows", "lanes wide", "rows wide"])
def test_small_mass(path, mass):
    """Tags of a small mass get the plain projection. The oracle has the same limit."""
    unary = np.zeros((6, 2))
    unary[:, 1] = np.log(mass)
    unary[3] = unary[3, ::-1]
    arrays = batch("float64", unary, [[0, -1], [1, 0]])
    assert projections(path, BregmanOptions(6, 1.5, None), *arrays) == path


@pytest.mark.parametrize("score", [-699, -701, -9e8, -1.1e9, -1e30])
def test_scores_of_tags_without_mass(score):
    """Scores in the chain of the arcs: tags without mass do not round the others."""
    unary = np.array([[0.0, 1, 2], [1, score, 0], [2, 0, score], [0, 1, 1]])
    transitions = np.array([[0.0, 1, score], [0, score, 1], [1, 0, 0]])
    lengths = np.array([4], "int32")
    options = BregmanOptions(50, 1.25, None, unary="chain")
    chain = native.bregman(np, unary, transitions, lengths, options, "none").unary
    masked = [np.where(array <= score, NONE, array) for array in (unary, transitions)]
    exact = native.bregman(np, *masked, lengths, options, "none").unary
    found = native.sum_product(np, chain, transitions, lengths, "sum", True)
    expected = native.sum_product(np, exact, masked[1], lengths, "sum", True)
    np.testing.assert_allclose(found.unary, expected.unary, atol=1e-6)
    np.testing.assert_allclose(found.value, 0, atol=1e-6)
