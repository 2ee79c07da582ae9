"""Mean field against the paper's updates, token by token."""

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inference_suite import split
from numeric import assert_gradient
from oracles import enumeration

from bcrf.chain import CRF, MeanField, Potentials, viterbi

pytestmark = pytest.mark.usefixtures("processor")


def explicit(u, w, n_iter):
    """Return r (L, T) after n_iter of the paper's updates."""
    w = np.where(w > -np.inf, w, 0)
    r = _softmax(u)
    for _ in range(n_iter):
        new = np.empty_like(r)
        for i in range(len(u)):
            logits = u[i].copy()
            if i > 0:
                logits += r[i - 1] @ w[i - 1]
            if i + 1 < len(u):
                logits += w[i] @ r[i + 1]
            new[i] = _softmax(logits[None])[0]
        r = new
    return r


def _softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@given(problems.potentials(scale=1.5), st.integers(1, 6))
def test_marginals_are_the_paper_s_updates(batch, n_iter):
    marginals = MeanField(n_iter).marginals(batch, edges=True)
    for rows, u, w in enumeration.sequences(batch):
        r = explicit(u, w, n_iter)
        np.testing.assert_allclose(marginals.unary[rows], r, atol=1e-9)
        edges = r[:-1, :, None] * r[1:, None, :]
        np.testing.assert_allclose(marginals.edges[rows][:-1], edges, atol=1e-9)


@given(problems.potentials(scale=1.5), st.integers(0, 999), st.integers(1, 6))
def test_loss_is_the_log_loss_after_the_last_update(batch, seed, n_iter):
    gold = problems.labeling(batch, np.random.default_rng(seed))
    losses, _ = MeanField(n_iter).loss(batch, gold)
    for b, (rows, u, w) in enumerate(enumeration.sequences(batch)):
        r = explicit(u, w, n_iter)
        p = r[np.arange(len(u)), gold[rows]]
        assert losses[b] == pytest.approx(-np.log(p).sum(), abs=1e-8)


@given(problems.potentials(scale=1.0), st.data())
def test_gradient_is_the_numeric_gradient(batch, data):
    gold = problems.labeling(batch, np.random.default_rng(data.draw(st.integers(0, 99))))
    n_iter = data.draw(st.integers(1, 10))
    assert_gradient(lambda p: MeanField(n_iter).loss(p, gold), batch, data)


@given(problems.potentials(forbid=False))
def test_value_is_a_lower_bound_of_the_log_partition(batch):
    assert (MeanField().log_partition(batch) <= CRF().log_partition(batch) + 1e-9).all()


def test_without_transitions_it_is_exact():
    rng = np.random.default_rng(0)
    batch = Potentials(rng.normal(size=(7, 4)), np.zeros((4, 4)), np.array([3, 4], "int32"))
    np.testing.assert_allclose(MeanField(1).log_partition(batch), CRF().log_partition(batch))
    np.testing.assert_allclose(MeanField(1).marginals(batch).unary, CRF().marginals(batch).unary)


@given(problems.potentials())
def test_decoded_labelings_are_allowed(batch):
    tags = MeanField().decode(batch)
    assert tags.dtype == np.int32 and (enumeration.score(batch, tags) > -np.inf).all()


def test_decoding_avoids_forbidden_transitions():
    transitions = np.array([[-np.inf, 0.0], [0.0, 0.0]])
    batch = Potentials(np.array([[2.0, 0.0], [1.0, 0.0]]), transitions, np.array([2], "int32"))
    assert MeanField().marginals(batch).unary.argmax(axis=1).tolist() == [0, 0]
    assert MeanField().decode(batch).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_scores(dtype):
    rng = np.random.default_rng(0)
    unary = (np.sign(rng.normal(size=(20, 5))) * 1e4).astype(dtype)
    transitions = rng.normal(size=(5, 5)).astype(dtype)
    batch = Potentials(unary, transitions, np.array([20], "int32"))
    gold = unary.argmin(axis=1).astype("int32")
    losses, gradient = MeanField().loss(batch, gold)
    assert 2e4 <= losses[0] < 5e5
    assert np.isfinite(gradient.unary).all() and np.isfinite(gradient.transitions).all()
    np.testing.assert_allclose(MeanField().marginals(batch).unary.sum(axis=1), 1, rtol=1e-6)


@given(problems.potentials())
def test_a_batch_equals_its_sequences_one_by_one(batch):
    marginals = MeanField().marginals(batch).unary
    for rows, one in split(batch):
        np.testing.assert_allclose(MeanField().marginals(one).unary, marginals[rows], atol=1e-12)


def test_sequences_without_annotation_are_left_out():
    rng = np.random.default_rng(0)
    batch = Potentials(
        rng.normal(size=(6, 3)), rng.normal(size=(3, 3)), np.array([2, 0, 4], "int32")
    )
    tags = viterbi(batch)[0]
    some = np.where(np.arange(6) < 2, -1, tags).astype("int32")
    losses, gradient = MeanField().loss(batch, some)
    alone = Potentials(batch.unary[2:], batch.transitions, np.array([4], "int32"))
    expected, expected_gradient = MeanField().loss(alone, tags[2:])
    np.testing.assert_allclose(losses, [0, 0, expected[0]])
    assert not gradient.unary[:2].any()
    np.testing.assert_allclose(gradient.transitions, expected_gradient.transitions)
    sets = (some[:, None] == np.arange(3)) | (some < 0)[:, None]
    np.testing.assert_allclose(MeanField().loss(batch, sets)[0], losses)
    losses, gradient = MeanField().loss(batch, np.full(6, -1, "int32"))
    assert not losses.any() and not gradient.unary.any() and not gradient.transitions.any()


def test_partial_gold_raises():
    batch = Potentials(np.zeros((5, 3)), np.zeros((3, 3)), np.array([2, 3], "int32"))
    sets = np.eye(3, dtype=bool)[[0, 1, 1, 2, 0]]
    sets[3, :2] = True
    for gold in (np.array([0, 1, -1, 2, 0], "int32"), sets):
        with pytest.raises(ValueError, match="sequence 1 has partial gold, and mean field cannot"):
            MeanField().loss(batch, gold)


def test_infeasible_sequences_are_named():
    unary = np.zeros((5, 2))
    unary[3] = -np.inf
    batch = Potentials(unary, np.zeros((2, 2)), np.array([2, 3], "int32"))
    for call in (MeanField().log_partition, MeanField().marginals, MeanField().decode):
        with pytest.raises(ValueError, match="sequence 1 has no allowed labeling"):
            call(batch)
    with pytest.raises(ValueError, match="sequence 1 has no gold labeling"):
        MeanField().loss(batch, np.zeros(5, "int32"))
    with pytest.raises(ValueError, match="n_iter must be at least 1, got 0"):
        MeanField(0)
