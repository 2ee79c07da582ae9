"""Entropy, divergence and samples of the posterior, against enumeration."""

import re

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from bcrf.chain import Potentials, entropy, kl_divergence, sample, viterbi

pytestmark = pytest.mark.usefixtures("processor")


@given(problems.potentials(max_tags=3, max_length=5))
def test_entropy_is_enumerated(batch):
    expected = []
    for _, u, w in enumeration.sequences(batch):
        p = enumeration.probabilities(u, w)
        expected.append(-(p[p > 0] * np.log(p[p > 0])).sum())
    np.testing.assert_allclose(entropy(batch), expected, atol=1e-9)


@given(problems.potentials(max_tags=3, max_length=5), st.integers(0, 2**32 - 1), st.booleans())
def test_kl_divergence_is_enumerated(p, seed, forbid):
    rng = np.random.default_rng(seed)
    unary = rng.normal(0, 2, p.unary.shape)
    if forbid and len(unary):
        free = np.arange(len(unary)), viterbi(p)[0]
        mask = rng.random(unary.shape) < 0.2
        mask[free] = False
        unary[mask] = -np.inf
    q = Potentials(unary, rng.normal(0, 2, p.transitions.shape), p.lengths)
    expected = []
    pairs = zip(enumeration.sequences(p), enumeration.sequences(q), strict=True)
    for (_, u_p, w_p), (_, u_q, w_q) in pairs:
        x, y = enumeration.probabilities(u_p, w_p), enumeration.probabilities(u_q, w_q)
        with np.errstate(divide="ignore"):
            expected.append((x[x > 0] * (np.log(x[x > 0]) - np.log(y[x > 0]))).sum())
    np.testing.assert_allclose(kl_divergence(p, q), expected, atol=1e-8)
    np.testing.assert_allclose(kl_divergence(p, p), 0, atol=1e-9)


def test_kl_divergence_of_different_sequences_raises():
    for these, those in (([3], [1, 2]), ([2, 1], [1, 2]), ([1, 2], [1, 1, 1])):
        p, q = (
            Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array(lengths, "int32"))
            for lengths in (these, those)
        )
        message = re.escape(f"lengths {these} and {those}")
        with pytest.raises(ValueError, match=f"different sequences.*{message}"):
            kl_divergence(p, q)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("trap", [False, True])
def test_samples_follow_the_posterior(shared, trap):
    chisquare = pytest.importorskip("scipy.stats").chisquare
    rng = np.random.default_rng(3)
    lengths = np.array([3, 0, 1, 4], "int32")
    n = int(lengths.sum())
    unary = rng.normal(0, 1, (n, 3))
    unary[rng.random(n) < 0.3, 0] = -np.inf
    transitions = rng.normal(0, 1, (3, 3) if shared else (n, 3, 3))
    if trap:
        # The tag of highest score has no continuation. In probability space, the scores of the
        # other tags underflow.
        unary[[0, 1, 4, 5, 6], 2] += 1000
        transitions[..., 2, :] = -np.inf
    batch = Potentials(unary, transitions, lengths)
    tags = sample(batch, 20_000, rng)
    assert tags.shape == (20_000, n) and tags.dtype == np.int32
    for rows, u, w in enumeration.sequences(batch):
        if len(u):
            p = enumeration.probabilities(u, w)
            paths = np.ravel_multi_index(tags[:, rows].T, (3,) * len(u))
            counts = np.bincount(paths, minlength=len(p))
            assert not counts[p == 0].any()
            assert chisquare(counts[p > 0], p[p > 0] * 20_000).pvalue > 1e-3


def test_a_seed_fixes_the_samples():
    batch = Potentials(np.zeros((5, 3)), np.zeros((3, 3)), np.array([5], "int32"))
    first, second = (sample(batch, 7, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_certain_labeling_has_no_entropy():
    unary = np.full((6, 4), -np.inf, "float32")
    unary[np.arange(6), [0, 3, 2, 1, 0, 0]] = [5, -2, 0, 1e4, 7, -1e4]
    batch = Potentials(unary, np.ones((4, 4), "float32"), np.array([4, 2], "int32"))
    assert entropy(batch).tolist() == [0, 0]
    assert sample(batch, 2, np.random.default_rng(0)).tolist() == [[0, 3, 2, 1, 0, 0]] * 2


def test_infeasible_sequences_and_options_are_named():
    unary = np.zeros((3, 2))
    unary[2] = -np.inf
    batch = Potentials(unary, np.zeros((2, 2)), np.array([2, 1], "int32"))
    rng = np.random.default_rng(0)
    for query in (entropy, lambda p: sample(p, 1, rng), lambda p: kl_divergence(p, p)):
        with pytest.raises(ValueError, match="sequence 1 has no allowed labeling"):
            query(batch)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        sample(batch, 0, rng)


def test_a_small_divergence_of_large_scores_is_exact():
    rng = np.random.default_rng(0)
    unary = (rng.normal(size=(5000, 9)) + 20).astype("float32")
    unary[np.arange(5000), rng.integers(0, 9, 5000)] += 14
    near = unary + rng.normal(size=unary.shape).astype("float32") * 0.01
    transitions, lengths = rng.normal(size=(9, 9)).astype("float32"), np.array([5000], "int32")
    p, q = (Potentials(scores, transitions, lengths) for scores in (unary, near))
    found = kl_divergence(p, q)
    exact = kl_divergence(p.astype("float64"), q.astype("float64"))
    assert found.dtype == np.float32 and exact > 0
    np.testing.assert_allclose(found, exact, rtol=1e-5)
