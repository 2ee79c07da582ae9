"""The compiled kernels against the reference kernels, and these against enumeration."""

import numpy as np
import problems
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import enumeration, reference
from pairwise import pairwise

from spacy_bcrf import kernels
from spacy_bcrf.kernels import BregmanOptions, native

pytestmark = pytest.mark.usefixtures("processor")

TAGS = [1, 2, 3, 8, 9, 16, 17, 33, 50, 69]


def problem(rng, tags, shared, dtype, forbid, scale, lengths=None):
    lengths = rng.integers(0, 23, 7).astype("int32") if lengths is None else lengths
    n = int(lengths.sum())
    unary = rng.normal(0, scale, (n, tags))
    transitions = rng.normal(0, scale / 2, (tags, tags) if shared else (n, tags, tags))
    if forbid:
        unary[rng.random(unary.shape) < 0.15] = -np.inf
        transitions[rng.random(transitions.shape) < 0.25] = -np.inf
    return unary.astype(dtype), transitions.astype(dtype), lengths


def assert_same(compiled, oracle, dtype, scale):
    # Float32 rounds the scores themselves, so the results cannot be closer than that.
    tolerance = 1e-5 if dtype == "float32" else 1e-10
    for name in ("value", "unary", "edges"):
        found, expected = getattr(compiled, name), getattr(oracle, name)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found, expected, rtol=tolerance, atol=tolerance * max(1, scale / 10), err_msg=name
        )


@pytest.mark.parametrize(
    "tags, dtype, shared, forbid, scale",
    pairwise(TAGS, ["float32", "float64"], [True, False], [False, True], [2.0, 30.0, 3000.0]),
)
def test_compiled_is_reference(tags, dtype, shared, forbid, scale):
    rng = np.random.default_rng(tags)
    unary, transitions, lengths = problem(rng, tags, shared, dtype, forbid, scale)
    double = unary.astype("float64"), transitions.astype("float64"), lengths
    edges = "sum" if shared else "each"
    with np.errstate(all="ignore"):
        compiled = native.sum_product(np, unary, transitions, lengths, edges, True)
        oracle = reference.sum_product(np, *double, edges, True)
        assert_same(compiled, oracle, dtype, scale)
        value = native.sum_product(np, unary, transitions, lengths, "none", False).value
        np.testing.assert_allclose(value, compiled.value, rtol=1e-6)
        for bound, relaxation, by in (
            ("upper", 1.25, 1.0),
            ("lower", 1.0, 1.0),
            ("upper", 1.25, 7.0),
        ):
            options = BregmanOptions(4, relaxation, None, bound, by)
            compiled = native.bregman(np, unary, transitions, lengths, options, edges)
            assert_same(compiled, reference.bregman(np, *double, options, edges), dtype, scale)
        _, scores = native.max_product(np, unary, transitions, lengths)
        _, expected = reference.max_product(np, *double)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


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


@given(problems.potentials(max_tags=3, max_length=5, max_sequences=2, scale=1.0))
@settings(deadline=None)
def test_node_factors_are_the_projections_of_the_paper(batch):
    """Algorithm 1 on explicit arcs, from the same start, gives the same iterates."""
    options = BregmanOptions(3, 1.0, None, "upper")
    found = reference.bregman(np, batch.unary, batch.transitions, batch.lengths, options, "each")
    for rows, u, w in enumeration.sequences(batch):
        if len(u) > 2 and np.isfinite(u).all() and np.isfinite(w).all():
            q = _explicit(u, w, options.n_iter)
            np.testing.assert_allclose(found.edges[rows][:-1], q, atol=1e-12)


def _explicit(u, w, n_iter):
    half = u / 2
    half[[0, -1]] = u[[0, -1]]
    q = np.exp(w + half[:-1, :, None] + half[1:, None, :])
    for _ in range(n_iter):
        for first in (1, 2):
            for i in range(first, len(u) - 1, 2):
                into, out = q[i - 1].sum(axis=0), q[i].sum(axis=1)
                sigma = (np.log(out) - np.log(into)) / 2
                s = (into * np.exp(sigma)).sum()
                q[i - 1] *= np.exp(sigma)[None, :] / s
                q[i] *= np.exp(-sigma)[:, None] / s
    return q
