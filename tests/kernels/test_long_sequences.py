"""Long sequences, which have windows of tokens, against the reference kernels."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from oracles import reference
from pairwise import pairwise
from paths import PATHS, Forced
from test_kernels import assert_same, doubles, problem
from test_threads import assert_identical

from bcrf import kernels
from bcrf.kernels import BregmanOptions

LENGTHS = np.array([5, 2301, 0, 2048, 2], "int32")
PLAIN, RELAXED = BregmanOptions(3, 1.0, None), BregmanOptions(4, 1.25, None, unary="outgoing")


@pytest.fixture(autouse=True)
def default_afterwards() -> Iterator[None]:
    yield
    kernels.set_threads(None)


# The oracle subtracts log-partitions of 1e5, whose last digits are about 1e-11.
assert_close = partial(assert_same, in_double=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges_of_a_long_sequence_that_needs_a_second_path(dtype):
    """Plain numbers have written some edges before they find that the range is too large."""
    unary, lengths = np.zeros((3000, 2), dtype), np.array([3000], "int32")
    unary[[500, 505], 1] = -437
    unary[[510, 515, 520, 525, 530], 0] = -437
    # Only two labelings are allowed, and the first scores much higher.
    transitions = np.array([[0, -np.inf], [-np.inf, 0]], dtype)
    unary[530:, 0] += 1
    edges = kernels.sum_product(unary, transitions, lengths, edges="each").edges
    own = np.tile(transitions, (3000, 1, 1))
    expected = kernels.sum_product(unary, own, lengths, edges="each").edges
    np.testing.assert_allclose(edges[:-1].sum(axis=(1, 2)), 1, rtol=1e-6)
    np.testing.assert_allclose(edges[:-1], expected[:-1], atol=1e-6)


@pytest.mark.parametrize(
    "path, tags, dtype, forbid, scale, options",
    pairwise(
        PATHS, [1, 2, 9, 17], ["float32", "float64"], [False, True], [1.0, 40.0], [PLAIN, RELAXED]
    ),
)
def test_long_sequences_are_the_reference(path, tags, dtype, forbid, scale, options):
    native = Forced(path)
    batch = problem(np.random.default_rng(tags), tags, True, dtype, forbid, scale, LENGTHS)
    double = doubles(*batch)
    with np.errstate(all="ignore"):
        found = native.sum_product(np, *batch, "sum", True)
        assert_close(found, reference.sum_product(np, *double, "sum", True), dtype, scale)
        projected = native.bregman(np, *batch, options, "sum")
        assert_close(projected, reference.bregman(np, *double, options, "sum"), dtype, scale)
        value = native.sum_product(np, *batch, "none", False).value
        np.testing.assert_allclose(value, found.value, rtol=1e-6)
        tags_found, scores = native.max_product(np, *batch)
        expected_tags, expected = reference.max_product(np, *double)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(kernels.path_scores(*batch, tags_found), scores, rtol=1e-5)
    if dtype == "float64" and not forbid:
        np.testing.assert_array_equal(tags_found, expected_tags)


@pytest.mark.parametrize("path", PATHS[:4])
def test_each_edge_has_its_marginals(path):
    batch = problem(np.random.default_rng(0), 3, True, "float64", False, 1.0, LENGTHS)
    found = Forced(path).sum_product(np, *batch, "each", True)
    assert_close(found, reference.sum_product(np, *batch, "each", True), "float64", 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_number_of_threads_changes_no_bit(dtype):
    batch = problem(np.random.default_rng(0), 9, True, dtype, True, 1.0, LENGTHS)
    results = []
    for count in 1, 2, 3:
        kernels.set_threads(count)
        results.append(
            {
                "sum_product": kernels.sum_product(*batch, edges="sum"),
                "value": [kernels.sum_product(*batch, marginals=False).value],
                "bregman": kernels.bregman(*batch, RELAXED, edges="sum"),
                "max_product": kernels.max_product(*batch),
            }
        )
    for found in results[1:]:
        assert_identical(found, results[0])


def test_a_tag_of_the_last_token_forbids_tags_of_the_first():
    """A window of a sequence does not know what the other windows forbid."""
    n, tags = 4000, 4
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(n, tags))
    unary[-1, 1:] = -np.inf
    transitions = np.where(np.tri(tags, dtype=bool).T, rng.normal(size=(tags, tags)), -np.inf)
    batch = unary, transitions, np.array([n], "int32")
    first = np.zeros((n, tags))
    first[:, 0] = 1
    for found in kernels.sum_product(*batch), kernels.bregman(*batch, RELAXED):
        np.testing.assert_allclose(found.unary, first, atol=1e-12)
        np.testing.assert_allclose(found.value, unary[:, 0].sum() + (n - 1) * transitions[0, 0])
    assert not kernels.max_product(*batch)[0].any()


def test_windows_that_do_not_fit_have_no_labeling():
    """Each half of the tokens has allowed labelings, but no transition joins them."""
    n = 3000
    unary = np.zeros((n, 2))
    unary[: n // 2, 1] = unary[n // 2 :, 0] = -np.inf
    batch = unary, np.array([[0.0, -np.inf], [0.0, 0.0]]), np.array([n], "int32")
    assert kernels.max_product(*batch)[1] == -np.inf
    for found in (
        kernels.sum_product(*batch, edges="sum"),
        kernels.bregman(*batch, RELAXED, edges="sum"),
    ):
        assert found.value == -np.inf
        assert not found.unary.any() and not found.edges.any()


def test_a_sequence_that_needs_more_range_counts_once():
    """One window of tokens is out of range, so the sums forget the others."""
    n, tags = 2400, 5
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(2 * n, tags)).astype("float32")
    unary[n - 3 : n - 1] *= 500
    transitions = rng.normal(size=(tags, tags)).astype("float32")
    transitions[0, 1] = -200
    batch = unary, transitions, np.array([n, n], "int32")
    kernels.set_threads(1)
    for found in (
        kernels.sum_product(*batch, edges="sum"),
        kernels.bregman(*batch, RELAXED, edges="sum"),
    ):
        np.testing.assert_allclose(found.edges.sum(), 2 * (n - 1), rtol=1e-6)
        np.testing.assert_allclose(found.unary.sum(axis=1), 1, rtol=1e-5)


def test_ties_go_to_the_lower_tag():
    n = 3000
    batch = np.zeros((n, 3)), np.zeros((3, 3)), np.array([n], "int32")
    assert not kernels.max_product(*batch)[0].any()
