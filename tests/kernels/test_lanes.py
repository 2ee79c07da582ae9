"""Layouts of sequences and tokens in the lanes of vectors, against the reference kernels."""

import numpy as np
import pytest
from oracles import reference
from pairwise import pairwise
from paths import Forced, counts, forced
from test_kernels import (
    assert_same,
    assert_same_mean_field,
    assert_same_projections,
    doubles,
    lowest_allowed_tags,
    problem,
)

from bcrf.kernels import BregmanOptions, native

LENGTHS = {
    "equal": np.full(33, 5),
    "ragged": np.arange(40) % 13,
    "single": np.ones(20),
    "few": np.array([7, 6, 9, 8, 7, 7, 6]),
    "uneven": np.array([60, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 3, 1, 1, 1]),
}


OPTIONS = [
    BregmanOptions(5, 1.25, None, "upper"),
    BregmanOptions(6, None, 1e-2, "upper", unary="outgoing"),
    BregmanOptions(1, 1.0, None, "upper", unary="chain"),
]
CASES = pairwise(
    [*range(1, 34), 64, 69, 127, 128],
    ["lanes", "lanes wide"],
    ["float32", "float64"],
    [False, True],
    [2.0, 30.0, 3000.0],
    OPTIONS,
)
NAMES = [list(LENGTHS)[i % len(LENGTHS)] for i in range(len(CASES))]


@pytest.mark.parametrize(
    "lengths, tags, path, dtype, forbid, scale, options",
    [(name, *case) for name, case in zip(NAMES, CASES, strict=True)],
)
def test_lanes_are_the_reference(lengths, tags, path, dtype, forbid, scale, options):
    native = Forced(path)
    rng = np.random.default_rng(tags)
    arrays = problem(rng, tags, True, dtype, forbid, scale, LENGTHS[lengths].astype("int32"))
    double = doubles(*arrays)
    with np.errstate(all="ignore"):
        found = native.sum_product(np, *arrays, "sum", True)
        assert_same(found, reference.sum_product(np, *double, "sum", True), dtype, scale)
        value = native.sum_product(np, *arrays, "none", False).value
        np.testing.assert_allclose(value, found.value, rtol=1e-6)
        tags_found, scores = native.max_product(np, *arrays)
        expected_tags, expected = reference.max_product(np, *double)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
        if dtype == "float64" and not forbid:
            np.testing.assert_array_equal(tags_found, expected_tags)
        found = native.bregman(np, *arrays, options, "sum")
        oracle = reference.bregman(np, *double, options, "sum")
        assert_same_projections(found, oracle, options, dtype, scale)


# Longer than 2,048 tokens, so that lanes have windows of 256.
WINDOWS = np.array([2100, 2049, 2303, 2304, 2305, 2200, 2200], "int32")


@pytest.mark.parametrize(
    "tags, path, dtype, forbid, scale",
    pairwise(
        [1, 3, 9],
        ["lanes", "lanes wide"],
        ["float32", "float64"],
        [False, True],
        [1.0, 30.0, 1000.0],
    ),
)
def test_windows_of_lanes_are_the_reference(tags, path, dtype, forbid, scale):
    native = Forced(path)
    arrays = problem(np.random.default_rng(tags), tags, True, dtype, forbid, scale, WINDOWS)
    double = doubles(*arrays)
    with np.errstate(all="ignore"):
        found = native.sum_product(np, *arrays, "sum", True)
        expected = reference.sum_product(np, *double, "sum", True)
        assert_same(found, expected, dtype, scale, in_double=1e-8)
        value = native.sum_product(np, *arrays, "none", False).value
        np.testing.assert_allclose(value, found.value, rtol=1e-6)
        _, scores = native.max_product(np, *arrays)
        np.testing.assert_allclose(scores, reference.max_product(np, *double)[1], rtol=1e-5)


@pytest.mark.parametrize("path", ["lanes", "rows"])
def test_edges_of_a_failed_window_count_once(path):
    """The last window is computed first. The first one needs a range that float32 has not."""
    n, size = 2100, 8
    unary = np.zeros((size, n, 3), "float32")
    # The best labeling starts with 2, 2, 2. Forward weights lose tag 2 at once. They see weights of
    # other tags, which are large enough for float32 at each token.
    unary[3, 0] = 0, -100, -100
    unary[3, 1:3] = -70, -70, 0
    transitions = np.zeros((3, 3), "float32")
    transitions[:2, 2] = -np.inf
    lengths = np.full(size, n, "int32")
    arrays = unary.reshape(-1, 3), transitions, lengths
    found = Forced(path).sum_product(np, *arrays, "sum", True)
    # A tile fails whole. With vectors of 128 bits it has four sequences.
    lost = {1} if path == "rows" else {4, size}
    assert counts("sum_product", "float32")["float64"] in lost
    expected = reference.sum_product(np, *doubles(*arrays), "sum", True)
    assert expected.unary[3 * n + 1, 2] > 0.99
    np.testing.assert_allclose(found.unary, expected.unary, atol=1e-5)
    np.testing.assert_allclose(found.edges, expected.edges, rtol=1e-5)


TOKEN_LENGTHS = {**LENGTHS, "long": np.array([3, 500, 1, 0, 191, 192])}


@pytest.mark.parametrize(
    "lengths, tags, dtype, forbid",
    pairwise(
        list(TOKEN_LENGTHS),
        [1, 2, 3, 8, 9, 16, 17, 20, 21, 44, 45],
        ["float32", "float64"],
        [False, True],
    ),
)
def test_mean_field_in_lanes_is_the_reference(lengths, tags, dtype, forbid):
    rng = np.random.default_rng(tags)
    arrays = problem(rng, tags, True, dtype, forbid, 2.0, TOKEN_LENGTHS[lengths].astype("int32"))
    gold = lowest_allowed_tags(arrays[0])
    gold[::7] = -1
    assert_same_mean_field(Forced("lanes"), arrays, gold, 3)


@pytest.mark.parametrize("score", [-np.inf, np.nan, np.inf])
@pytest.mark.parametrize("token", [18, 20, 23])
@pytest.mark.parametrize("path", ["lanes", "rows"])
def test_a_bad_token_leaves_other_sequences_as_they_are(path, score, token):
    native = Forced(path)
    rng = np.random.default_rng(0)
    batch = unary, _, _ = problem(rng, 5, True, "float32", False, 2.0, np.full(8, 6, "int32"))
    gold, others = np.zeros(48, "int32"), np.arange(8) != 3
    for kernel, args in (native.mean_field, [3]), (native.mean_field_loss, [gold, 3]):
        whole = kernel(np, *batch, *args)
        bad = unary.copy()
        bad[token] = score
        with np.errstate(all="ignore"):
            found = kernel(np, bad, *batch[1:], *args)
        np.testing.assert_allclose(found.value[others], whole.value[others], rtol=1e-5)
        np.testing.assert_allclose(
            found.unary.reshape(8, -1)[others], whole.unary.reshape(8, -1)[others], atol=1e-6
        )
        if score == -np.inf:
            assert found.value[3] == -np.inf and not found.unary[18:24].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_failed_sequence_does_not_change_the_others(dtype):
    """Numbers of a lane whose sums are 0 stay finite: marginals of an edge look at all lanes."""
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(32, 5, 3)).astype(dtype)
    unary[::5, 1] = -np.inf
    transitions = rng.normal(size=(3, 3)).astype(dtype)
    arrays = unary.reshape(-1, 3), transitions, np.full(32, 5, "int32")
    with forced("rows"):
        expected = native.sum_product(np, *arrays, "each", True)
    with forced("lanes"):
        found = native.sum_product(np, *arrays, "each", True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
