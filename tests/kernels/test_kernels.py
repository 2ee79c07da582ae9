"""The compiled kernels against the reference kernels, and these against enumeration."""

from itertools import product

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    enumeration,
    explicit_bregman,
    reference,
    reference_mean_field,
    reference_posterior,
)
from pairwise import pairwise
from paths import PATHS, Forced

from bcrf import kernels
from bcrf.kernels import BregmanOptions, native

pytestmark = pytest.mark.usefixtures("processor")

TAGS = [1, 2, 3, 8, 9, 16, 17, 33, 50, 69]


def problem(rng, tags, shared, dtype, forbid, scale, lengths=None):
    lengths = rng.integers(0, 14, 7).astype("int32") if lengths is None else lengths
    n = int(lengths.sum())
    unary = rng.normal(0, scale, (n, tags))
    transitions = rng.normal(0, scale / 2, (tags, tags) if shared else (n, tags, tags))
    if forbid:
        unary[rng.random(unary.shape) < 0.15] = -np.inf
        transitions[rng.random(transitions.shape) < 0.25] = -np.inf
    return unary.astype(dtype), transitions.astype(dtype), lengths


def doubles(unary, transitions, lengths):
    return unary.astype("float64"), transitions.astype("float64"), lengths


def assert_same(compiled, oracle, dtype, scale, in_double=1e-10):
    # Float32 rounds the scores themselves, so the results cannot be closer than that.
    tolerance = 1e-5 if dtype == "float32" else in_double
    for name in ("value", "unary", "edges"):
        found, expected = getattr(compiled, name), getattr(oracle, name)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found, expected, rtol=tolerance, atol=tolerance * max(1, scale / 10), err_msg=name
        )


def assert_same_projections(compiled, oracle, options, dtype, scale):
    if options.unary == "chain":
        # A constant may move from the scores of one token to those of another.
        compiled, oracle = (
            result._replace(unary=result.unary - result.unary.max(axis=1, keepdims=True))
            for result in (compiled, oracle)
        )
    assert_same(compiled, oracle, dtype, scale)


def assert_same_mean_field(backend, arrays, gold, n_iter):
    """Compare values, marginals, losses and gradients."""
    tolerance = 1e-5 if arrays[0].dtype == "float32" else 1e-10
    for name, args in ("mean_field", [n_iter]), ("mean_field_loss", [gold, n_iter]):
        with np.errstate(all="ignore"):
            found = getattr(backend, name)(np, *arrays, *args)
            expected = getattr(reference_mean_field, name)(np, *doubles(*arrays), *args)
        np.testing.assert_allclose(found.value, expected.value, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found.unary, expected.unary, atol=10 * tolerance)
        if expected.edges is not None:
            np.testing.assert_allclose(
                found.edges, expected.edges, rtol=tolerance, atol=10 * tolerance
            )


def test_labelings_of_nearly_equal_scores(backend):
    """Float32 finds the better one of two labelings whose scores are closer than their rounding.

    A search that does not subtract the largest score of each token, as pytorch-crf's, does not.
    """
    rng, length, tags = np.random.default_rng(0), 80, 7
    lengths = np.full(30, length, "int32")
    unary = (10 + rng.normal(size=(30 * length, tags))).astype("float32")
    transitions = rng.normal(size=(tags, tags)).astype("float32")
    arrays = doubles(unary, transitions, lengths)
    (best, second), scores = native.nbest(np, *arrays, 2)
    for b, (first, other) in enumerate(scores):
        differing = np.flatnonzero(best != second)
        i = differing[np.searchsorted(differing, b * length)]
        unary[i, best[i]] -= first - other - 2e-5
    arrays = doubles(unary, transitions, lengths)
    expected, scores = native.nbest(np, *arrays, 2)
    gaps = scores[:, 0] - scores[:, 1]
    assert (gaps < 3e-5).all() and (gaps[gaps < 2.5e-5] > 1.5e-5).sum() > 20
    assert np.spacing(scores.astype("float32")).min() > 3e-5
    found, _ = backend.max_product(np, unary, transitions, lengths)
    np.testing.assert_array_equal(found, expected[0])


def lowest_allowed_tags(unary):
    """Gold (N,) whose loss is finite."""
    return np.where(unary > -np.inf, unary, 9).argmin(axis=1).astype("int32")


@pytest.mark.parametrize(
    "tags, path, dtype, shared, forbid, scale",
    pairwise(
        TAGS, PATHS, ["float32", "float64"], [True, False], [False, True], [2.0, 30.0, 3000.0]
    ),
)
def test_compiled_is_reference(tags, path, dtype, shared, forbid, scale):
    native = Forced(path)
    rng = np.random.default_rng(tags)
    unary, transitions, lengths = problem(rng, tags, shared, dtype, forbid, scale)
    double = doubles(unary, transitions, lengths)
    edges = "sum" if shared else "each"
    with np.errstate(all="ignore"):
        compiled = native.sum_product(np, unary, transitions, lengths, edges, True)
        oracle = reference.sum_product(np, *double, edges, True)
        assert_same(compiled, oracle, dtype, scale)
        value = native.sum_product(np, unary, transitions, lengths, "none", False).value
        np.testing.assert_allclose(value, compiled.value, rtol=1e-6)
        for options in (
            BregmanOptions(5, 1.25, None, "upper"),
            BregmanOptions(4, 1.0, None, "lower"),
            BregmanOptions(5, 1.25, None, "upper", 7.0, "outgoing"),
            BregmanOptions(1, 1.0, None, "upper", unary="chain"),
            BregmanOptions(6, 1.25, None, "lower", unary="chain"),
        ):
            compiled = native.bregman(np, unary, transitions, lengths, options, edges)
            oracle = reference.bregman(np, *double, options, edges)
            assert_same_projections(compiled, oracle, options, dtype, scale)
        _, scores = native.max_product(np, unary, transitions, lengths)
        _, expected = reference.max_product(np, *double)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "tags, path, dtype, shared",
    pairwise([2, 9, 17, 69], PATHS, ["float32", "float64"], [True, False]),
)
def test_few_tokens_need_a_large_range(tags, path, dtype, shared):
    """The other tokens of their sequences have probabilities that are neither 0 nor 1."""
    native = Forced(path)
    rng = np.random.default_rng(tags)
    lengths = np.array([1, 2, 3, 9, 20], dtype="int32")
    unary, transitions, _ = problem(rng, tags, shared, dtype, False, 1.0, lengths)
    transitions[rng.random(transitions.shape) < 0.3] = -np.inf
    for token in 0, 2, 5, 10, 22, len(unary) - 1:
        unary[token] = 3000 * rng.normal(size=tags)
    batch, double = (
        tuple(array.astype(kind) for array in (unary, transitions)) for kind in (dtype, "float64")
    )
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-8, "atol": 1e-9}
    heads, tails = (rng.integers(tags, size=8, dtype="int32") for _ in range(2))
    uniform = rng.random((20, len(unary)))
    with np.errstate(all="ignore"):
        for edges in ["each", "sum"] if shared else ["each"]:
            compiled = native.sum_product(np, *batch, lengths, edges, True)
            oracle = reference.sum_product(np, *double, lengths, edges, True)
            assert_same(compiled, oracle, dtype, 100)
            for bound, rule in product(["upper", "lower"], ["mean", "outgoing", "chain"]):
                for n_iter in 1, 6:
                    options = BregmanOptions(n_iter, 1.25, None, bound, unary=rule)
                    compiled = native.bregman(np, *batch, lengths, options, edges)
                    oracle = reference.bregman(np, *double, lengths, options, edges)
                    assert_same_projections(compiled, oracle, options, dtype, 1000)
        found = native.entropy(np, *batch, lengths)
        expected = reference_posterior.entropy(np, *double, lengths)
        np.testing.assert_allclose(found, expected, **tolerance)
        found = native.pair_marginals(np, *batch, lengths, heads, tails)
        expected = reference_posterior.pair_marginals(np, *double, lengths, heads, tails)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, **tolerance)
        found = native.sample(np, *batch, lengths, uniform)
        expected = reference_posterior.sample(np, *double, lengths, uniform)
        assert (found == expected).mean() > 0.999


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tags", [1, 2, 17, 69])
def test_no_labeling_allowed_at_scores_of_a_large_range(tags, dtype):
    unary, transitions, lengths = problem(
        np.random.default_rng(0), tags, True, dtype, False, 3000, np.array([3, 4], "int32")
    )
    unary[4] = -np.inf
    found = kernels.sum_product(unary, transitions, lengths, edges="each")
    projected = kernels.bregman(unary, transitions, lengths, BregmanOptions(5, 1.25, None))
    tag = np.zeros(1, "int32")
    marginals, pairs = kernels.pair_marginals(unary, transitions, lengths, tag, tag)
    for result in found.value, projected.value, kernels.entropy(unary, transitions, lengths):
        assert result[0] > -np.inf and result[1] == -np.inf
    for result in found.unary, projected.unary, marginals:
        np.testing.assert_allclose(result[:3].sum(axis=1), 1, atol=1e-6)
        assert not result[3:].any()
    assert not found.edges[3:].any() and not pairs[3:].any()


@pytest.mark.parametrize("where", ["unary", "transitions"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tags", [5, 17, 69])
@pytest.mark.parametrize("shared", [True, False])
def test_scores_that_are_not_finite_are_no_forbidden_tags(
    tags,
    dtype,
    where,
    value,
    shared,
):
    for n in 1, 40:
        lengths = np.full(n, 9, "int32")
        rng = np.random.default_rng(tags)
        batch = problem(rng, tags, shared, dtype, False, 3000, lengths)
        array = batch[0] if where == "unary" else batch[1]
        array[(3, 1) if array.ndim == 2 else (3, 1, 1)] = value
        options = BregmanOptions(5, 1.25, None)
        for result in (
            kernels.sum_product(*batch, edges="each"),
            kernels.sum_product(*batch, marginals=False),
            kernels.bregman(*batch, options),
        ):
            assert not np.isfinite(result.value[0])
        assert not np.isfinite(kernels.entropy(*batch)[0])


def test_arrays_that_are_not_contiguous():
    rng = np.random.default_rng(0)
    unary, shared, lengths = problem(rng, 5, True, "float32", False, 1.0)
    each = problem(rng, 5, False, "float32", False, 1.0, lengths)[1]
    for transitions in np.asfortranarray(shared), each[:, ::-1], each.swapaxes(1, 2):
        with pytest.raises(ValueError, match="not C-contiguous"):
            kernels.sum_product(unary, transitions, lengths)
    with pytest.raises(ValueError, match="not C-contiguous"):
        kernels.max_product(unary[:, ::-1], shared, lengths)
    tags, weights = np.zeros((1, len(unary)), "int32"), np.ones((len(lengths), 1), "float32")
    with pytest.raises(ValueError, match="not C-contiguous"):
        kernels.add_features(tags, weights, lengths, np.zeros_like(unary), each.swapaxes(1, 2))


@pytest.mark.parametrize("shared", [True, False])
def test_beam_search_avoids_dead_ends(shared):
    """Beam search leaves out the best prefixes if no allowed labeling continues them."""
    forbidden = -np.inf
    unary = np.array([[9.0, 1.0, 0.0], [0.0, 5.0, 2.0], [forbidden, forbidden, 0.0]])
    transitions = np.array([[0, 0, forbidden], [0, 0, forbidden], [0, forbidden, 0]])
    transitions = transitions if shared else np.stack([transitions] * 3)
    lengths = np.array([3], "int32")
    tags, scores = native.beam_search(np, unary, transitions, lengths, 1, 1)
    assert tags.tolist() == [[2, 2, 2]] and scores.tolist() == [[2.0]]


@given(problems.potentials(), st.integers(1, 9), st.sampled_from([None, 0.1, 1e-3]))
def test_projections_with_a_tolerance_are_the_reference(batch, n_iter, tolerance):
    options = BregmanOptions(n_iter, None, tolerance, "upper")
    arrays = batch.unary, batch.transitions, batch.lengths
    compiled = native.bregman(np, *arrays, options, "each")
    assert_same(compiled, reference.bregman(np, *arrays, options, "each"), "float64", 1)


@given(problems.potentials(max_tags=3, max_length=5))
def test_reference_is_enumeration(batch):
    arrays = batch.unary, batch.transitions, batch.lengths
    found = reference.sum_product(np, *arrays, "each", True)
    node, edge = enumeration.marginals(batch)
    np.testing.assert_allclose(found.value, enumeration.log_partition(batch), atol=1e-9)
    np.testing.assert_allclose(found.unary, node, atol=1e-9)
    np.testing.assert_allclose(found.edges, edge, atol=1e-9)
    tags, scores = reference.max_product(np, *arrays)
    np.testing.assert_allclose(scores, enumeration.viterbi_scores(batch), atol=1e-9)
    np.testing.assert_array_equal(tags, native.max_product(np, *arrays)[0])


@pytest.mark.parametrize("kernels_of", [reference, native])
@given(
    problems.potentials(max_tags=3, max_length=7, max_sequences=3, scale=2.0), st.integers(1, 12)
)
def test_projections_are_algorithm_1(kernels_of, batch, n_iter):
    """n_iter is the paper's k: so many projections of one parity each, of explicit arcs."""
    arrays = batch.unary, batch.transitions, batch.lengths
    of_arcs = {
        "mean": explicit_bregman.mean_marginals,
        "outgoing": explicit_bregman.outgoing_marginals,
    }
    for rule, marginals in of_arcs.items():
        options = BregmanOptions(n_iter, 1.0, None, unary=rule)
        found = kernels_of.bregman(np, *arrays, options, "each")
        for rows, u, w in enumeration.sequences(batch):
            if len(u) < 2:
                continue
            # The projections omit tags that no allowed labeling uses.
            q = explicit_bregman.project_arcs(enumeration.reachable(u, w), w, n_iter)
            np.testing.assert_allclose(found.edges[rows][:-1], q, atol=1e-12)
            np.testing.assert_allclose(found.unary[rows], marginals(q), atol=1e-12)


@given(problems.potentials(max_tags=3, max_length=5, max_sequences=3, scale=2.0), st.integers(1, 6))
def test_chain_scores_are_log_probabilities_of_explicit_arcs(batch, n_iter):
    arrays = batch.unary, batch.transitions, batch.lengths
    options = BregmanOptions(n_iter, 1.0, None, unary="chain")
    scores = native.bregman(np, *arrays, options, "none").unary
    for rows, u, w in enumeration.sequences(batch):
        if len(u) < 2:
            continue
        q = explicit_bregman.project_arcs(enumeration.reachable(u, w), w, n_iter)
        expected = explicit_bregman.chain_probabilities(q)
        p = np.exp(enumeration.labelings(scores[rows], w)[1])
        np.testing.assert_allclose(p, expected, atol=1e-12)
