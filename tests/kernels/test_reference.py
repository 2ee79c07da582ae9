"""Mean field, posterior queries and searches against the reference kernels."""

import numpy as np
import pytest
from oracles import reference, reference_posterior, reference_search
from pairwise import pairwise
from paths import PATHS, Forced
from test_kernels import assert_same_mean_field, doubles, lowest_allowed_tags, problem

from bcrf import kernels
from bcrf.kernels import BregmanOptions, native

pytestmark = pytest.mark.usefixtures("processor")

DTYPES = ["float32", "float64"]
SHARED = [True, False]


@pytest.mark.parametrize("tags, dtype, shared", pairwise([1, 2, 8, 9, 17, 33, 69], DTYPES, SHARED))
def test_mean_field(path_backend, tags, dtype, shared):
    rng = np.random.default_rng(tags)
    arrays = unary, _, lengths = problem(rng, tags, shared, dtype, True, 2.0)
    gold = lowest_allowed_tags(unary)
    gold[: lengths[0]] = -1
    assert_same_mean_field(path_backend, arrays, gold, 4)


@pytest.mark.parametrize(
    "tags, dtype, shared, scale", pairwise([1, 2, 9, 17, 69], DTYPES, SHARED, [2.0, 300.0, 3000.0])
)
def test_posterior_queries(path_backend, tags, dtype, shared, scale):
    rng = np.random.default_rng(tags)
    arrays = unary, transitions, _ = problem(rng, tags, shared, dtype, True, scale)
    # Tag 0 everywhere is an allowed labeling.
    unary[:, 0] = transitions[..., 0] = 0
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    found = path_backend.entropy(np, *arrays)
    expected = reference_posterior.entropy(np, *doubles(*arrays))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)
    pairs = rng.integers(0, tags, (2, 4)).astype("int32")
    marginals = path_backend.pair_marginals(np, *arrays, *pairs)
    expected = reference_posterior.pair_marginals(np, *doubles(*arrays), *pairs)
    for x, y in zip(marginals, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=10 * tolerance)
    assert found.dtype == marginals[0].dtype == marginals[1].dtype == dtype
    if hasattr(path_backend, "path") and dtype == "float64":
        uniform = rng.random((3, len(unary)))
        expected = reference_posterior.sample(np, *arrays, uniform)
        np.testing.assert_array_equal(path_backend.sample(np, *arrays, uniform), expected)


@pytest.mark.parametrize(
    "tags, shared, dtype, n, width",
    pairwise([1, 2, 9, 17, 33], SHARED, DTYPES, [1, 5, 12], [0, 3, 30]),
)
def test_searches(backend, tags, shared, dtype, n, width):
    rng = np.random.default_rng(tags)
    lengths = np.array([0, 1, 5, 8, 2], "int32")
    arrays = problem(rng, tags, shared, dtype, True, 2.0, lengths)
    found = backend.beam_search(np, *arrays, n, n + width)
    expected = reference_search.beam_search(np, *arrays, n, n + width)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)
    if backend is native:
        scores = native.nbest(np, *arrays, n)[1]
        expected = reference_search.nbest(np, *arrays, n)[1]
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
        found, expected = native.dijkstra(np, *arrays), reference_search.dijkstra(np, *arrays)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5)


def subtract_labeling(batch, tags, value, node, edge):
    """Return the losses of one labeling and their gradient, from values and marginals."""
    minus_one = np.full((len(value), 1), -1, value.dtype)
    kernels.add_features(tags[None], minus_one, batch[2], node, edge)
    return np.maximum(value - kernels.path_scores(*batch, tags), 0), node, edge


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("options", [None, BregmanOptions(5, 1.25, None)])
def test_the_fused_loss_is_that_of_its_parts(options, shared, dtype):
    rng = np.random.default_rng(3)
    unary, transitions, lengths = problem(rng, 4, shared, dtype, False, 1.0)
    tags = rng.integers(0, 4, len(unary)).astype("int32")
    arrays, edges = (unary, transitions, lengths), "sum" if shared else "each"
    if options:
        expected = kernels.bregman(*arrays, options, edges=edges)
    else:
        expected = kernels.sum_product(*arrays, edges=edges)
    expected = subtract_labeling(arrays, tags, *expected)
    for x, y in zip(kernels.fused_loss(*arrays, tags, options), expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)
    for wrong in -1, 4:
        assert kernels.fused_loss(*arrays, np.where(tags, tags, wrong).astype("int32")) is None
    forbidden = unary.copy()
    forbidden[-1, tags[-1]] = -np.inf
    assert kernels.fused_loss(forbidden, transitions, lengths, tags) is None
    for bad in tags[1:], tags.tolist():
        with pytest.raises((TypeError, ValueError), match="gold must"):
            kernels.fused_loss(*arrays, bad)


@pytest.mark.parametrize(
    "path, lengths, dtype, scale, options",
    pairwise(
        PATHS,
        [[9] * 40 + [1, 0], [3, 8, 1], [2500, 4]],
        DTYPES,
        [1, 100, 1e4],
        [None, BregmanOptions(5, None, None, "lower")],
    ),
)
def test_the_fused_loss_of_each_path(path, lengths, dtype, scale, options):
    rng = np.random.default_rng(3)
    lengths = np.array(lengths, "int32")
    unary = rng.normal(0, scale, (lengths.sum(), 4)).astype(dtype)
    transitions = rng.normal(0, scale, (4, 4)).astype(dtype)
    # A sequence that needs a larger range than the others.
    unary[-2] *= 100
    batch, tags = (unary, transitions, lengths), rng.integers(0, 4, len(unary)).astype("int32")
    if options:
        expected = kernels.bregman(*batch, options, edges="sum")
    else:
        expected = kernels.sum_product(*batch, edges="sum")
    expected = subtract_labeling(batch, tags, *expected)
    for x, y in zip(Forced(path).labeling_loss(np, *batch, tags, options), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("path, scale, dtype", pairwise(PATHS, [30, 100, 300, 2000], DTYPES))
def test_posteriors_of_a_large_range(path, scale, dtype):
    native = Forced(path)
    rng = np.random.default_rng(0)
    lengths = np.array([9] * 40, "int32")
    unary, transitions = rng.normal(0, scale, (360, 6)), rng.normal(0, scale / 20, (6, 6))
    transitions[rng.random((6, 6)) < 0.2] = -np.inf
    batch = unary.astype(dtype), transitions.astype(dtype), lengths
    exact = batch[0].astype(float), batch[1].astype(float), lengths
    atol = 1e-6 * scale if dtype == "float32" else 1e-9
    for kind in "each", "sum":
        found = native.sum_product(np, *batch, kind, True)
        expected = reference.sum_product(np, *exact, kind, True)
        np.testing.assert_allclose(found.edges, expected.edges, atol=atol)
        np.testing.assert_allclose(found.unary, expected.unary, atol=atol)
    entropy = reference_posterior.entropy(np, *exact)
    np.testing.assert_allclose(native.entropy(np, *batch), entropy, atol=10 * atol)


@pytest.mark.parametrize("scale", [1e12, 1e16, 1e17, 1e20, 1e30])
def test_marginals_of_huge_scores_sum_to_one(path_backend, scale):
    rng = np.random.default_rng(0)
    for _ in range(100):
        unary, transitions = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
        unary[rng.random((5, 3)) < 0.3] *= scale
        transitions[rng.random((3, 3)) < 0.3] *= scale
        batch = unary, transitions, np.array([5], "int32")
        found = path_backend.sum_product(np, *batch, "each", True)
        np.testing.assert_allclose(found.unary.sum(1), 1, rtol=1e-9)
        np.testing.assert_allclose(found.edges[:4].sum((1, 2)), 1, rtol=1e-9)
        gold, _ = kernels.max_product(*batch)
        assert (kernels.fused_loss(*batch, gold).unary.sum(1) < 1e-9).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", [-1e9, -1e16, -1e30])
def test_a_finite_mask_forbids_a_tag(path_backend, mask, dtype):
    rng = np.random.default_rng(0)
    for _ in range(8):
        lengths = rng.integers(2, 6, 1).astype("int32")
        gold = rng.integers(0, 3, lengths[0]).astype("int32")
        unary, transitions = rng.normal(size=(lengths[0], 3)), rng.normal(size=(3, 3))
        no_tag, no_pair = rng.random(unary.shape) < 0.4, rng.random((3, 3)) < 0.3
        no_tag[np.arange(lengths[0]), gold], no_pair[gold[:-1], gold[1:]] = False, False
        arrays = [
            (
                np.where(no_tag, m, unary).astype(dtype),
                np.where(no_pair, m, transitions).astype(dtype),
            )
            for m in (mask, -np.inf)
        ]
        for relaxation in 1.0, 1.25:
            options = BregmanOptions(50, relaxation, None)
            found, expected = [
                path_backend.bregman(np, *a, lengths, options, "sum") for a in arrays
            ]
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_allclose(x, y, atol=2e-3)
        options = BregmanOptions(50, 1.25, None, unary="chain")
        chains = [path_backend.bregman(np, *a, lengths, options, "none").unary for a in arrays]
        found, expected = [
            path_backend.sum_product(np, chain, a[1], lengths, "sum", True)
            for chain, a in zip(chains, arrays, strict=True)
        ]
        np.testing.assert_allclose(found.unary, expected.unary, atol=1e-3)
        np.testing.assert_allclose(found.value, 0, atol=1e-3)


@pytest.mark.parametrize("seed", [506, 743, 1248])
def test_rounding_does_not_decide_about_the_relaxation(backend, seed):
    """Violations stay near 2, so that their ratio is 1 but for rounding."""
    rng = np.random.default_rng(seed)
    unary, transitions = rng.normal(0, 300, (12, 4)), rng.normal(0, 20, (4, 4))
    transitions[rng.random((4, 4)) < 0.5] = -np.inf
    options, lengths = BregmanOptions(8, None, 1e-2), np.array([12], "int32")
    values = [
        kernels.bregman(np, unary, transitions * (1 + 1e-13), lengths, options, "none").value
        for kernels in (backend, reference)
    ]
    values.append(reference.bregman(np, unary, transitions, lengths, options, "none").value)
    np.testing.assert_allclose(values[1:], values[:-1], rtol=1e-9)


@pytest.mark.parametrize("shared", SHARED)
def test_features_and_scores_of_labelings(backend, shared):
    rng = np.random.default_rng(2)
    unary, transitions, lengths = problem(rng, 4, shared, "float32", False, 1.0)
    tags = rng.integers(0, 4, (3, len(unary))).astype("int32")
    weights = rng.normal(size=(len(lengths), 3)).astype("float32")
    results = []
    for module in (backend, reference_search):
        node, edge = unary.copy(), transitions.copy()
        module.add_features(np, tags, weights, lengths, node, edge)
        scores = module.path_scores(np, unary, transitions, lengths, tags[0])
        results.append((node, edge, scores))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    if backend is native:
        gains = np.linspace(-1, 2, 3 * len(lengths)).reshape(-1, 3)
        gram = native.gram_matrices(np, tags, lengths, 4, shared)
        np.testing.assert_allclose(
            gram, reference_search.gram_matrices(np, tags, lengths, 4, shared), atol=1e-9
        )
        steps = native.hildreth(np, gains, gram, 0.2)
        expected = reference_search.hildreth(np, gains, gram, 0.2)
        np.testing.assert_allclose(steps, expected, atol=1e-9)
