"""The unlikelihood loss against enumeration."""

import numpy as np
import problems
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numeric import assert_gradient
from oracles import enumeration

from bcrf import kernels
from bcrf.chain import BCRF, CRF, MeanField, Potentials, Unstructured, unlikelihood
from bcrf.chain.unlikelihood import Rejection, unlikelihood_loss

pytestmark = pytest.mark.usefixtures("processor")


@st.composite
def rejections(draw, batch):
    """Up to three random sets of wrong labelings."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nonempty = [b for b, length in enumerate(batch.lengths.tolist()) if length]
    assume(nonempty)
    sequences = draw(st.lists(st.sampled_from(nonempty), min_size=1, max_size=3))
    tags = batch.unary.shape[1]
    found = []
    for sequence in sequences:
        allowed = rng.random((batch.lengths[sequence], tags)) < 0.6
        allowed[np.arange(len(allowed)), rng.integers(0, tags, len(allowed))] = True
        found.append(Rejection(sequence, allowed))
    return found


@given(problems.potentials(max_tags=3, max_length=4), st.data())
def test_loss_is_enumerated(batch, data):
    wrong = data.draw(rejections(batch))
    losses, _ = unlikelihood_loss(CRF(), batch, wrong)
    expected = np.zeros(len(batch.lengths))
    for b, (_, u, w) in enumerate(enumeration.sequences(batch)):
        paths, p = enumeration.labelings(u, w)[0], enumeration.probabilities(u, w)
        for sequence, allowed in wrong:
            if sequence == b:
                is_wrong = allowed[np.arange(len(u)), paths].all(axis=1)
                expected[b] += -np.log1p(-min(p[is_wrong].sum(), 0.999))
    np.testing.assert_allclose(losses, expected, atol=1e-7)


@pytest.mark.parametrize(
    "inference, scale",
    [(CRF(), 1.0), (BCRF(400, relaxation=1), 1.0), (MeanField(100), 0.5), (Unstructured(), 1.0)],
    ids=repr,
)
@settings(max_examples=15)
@given(st.data())
def test_gradient_is_the_numeric_gradient(inference, scale, data):
    # Forbidden labelings have probability under mean field, so it has no converged gradient there.
    forbid = not isinstance(inference, MeanField | Unstructured)
    batch = data.draw(problems.potentials(max_tags=3, max_length=4, scale=scale, forbid=forbid))
    wrong = data.draw(rejections(batch))
    losses, _ = unlikelihood_loss(inference, batch, wrong)
    # Near p = 1 the loss is clipped.
    assume(losses.max() < 4)
    assert_gradient(lambda p: unlikelihood_loss(inference, p, wrong), batch, data)


@pytest.mark.parametrize(
    "inference", [CRF(), BCRF(), BCRF(1), BCRF(300), MeanField(), Unstructured()], ids=repr
)
@given(problems.potentials(max_tags=3, max_sequences=1, scale=1.0), st.integers(0, 5))
def test_exclusive_and_exhaustive_events_have_total_probability_1(inference, batch, token):
    assume(len(batch.unary) and batch.unary.shape[1] > 1)
    token %= len(batch.unary)
    total = 0.0
    for tag in np.flatnonzero(batch.unary[token] > -np.inf):
        allowed = np.ones(batch.unary.shape, dtype=bool)
        allowed[token] = np.arange(allowed.shape[1]) == tag
        losses, _ = unlikelihood_loss(inference, batch, [Rejection(0, allowed)])
        p = 1 - np.exp(-losses[0])
        assume(p < 0.999)  # The loss clips p there.
        total += p
    assert total == pytest.approx(1, abs=1e-9)


def test_a_rejection_has_the_probability_of_the_marginals():
    """The review's example: a tag of token 3, under a Bregman CRF's own marginals."""
    rng = np.random.default_rng(0)
    batch = Potentials(rng.normal(size=(6, 3)), rng.normal(size=(3, 3)), np.array([6], "int32"))
    inference = BCRF(300)
    for tag, p in enumerate(inference.marginals(batch).unary[3]):
        allowed = np.ones((6, 3), dtype=bool)
        allowed[3] = np.arange(3) == tag
        losses, _ = unlikelihood_loss(inference, batch, [Rejection(0, allowed)])
        assert losses[0] == pytest.approx(-np.log1p(-p), abs=1e-10)


def test_inference_runs_once_a_sequence_and_once_a_chunk(monkeypatch):
    rng = np.random.default_rng(0)
    lengths = np.array([5, 3, 4], "int32")
    batch = Potentials(rng.normal(size=(12, 3)), rng.normal(size=(12, 3, 3)), lengths)
    wrong = [Rejection(b, rng.random((lengths[b], 3)) < 0.7) for b in [2, 0, 2, 2, 0, 2]]
    losses, gradient = unlikelihood_loss(CRF(), batch, wrong)
    n_tokens = []
    sum_product = kernels.sum_product

    def counted(unary, *args, **options):
        n_tokens.append(len(unary))
        return sum_product(unary, *args, **options)

    monkeypatch.setattr(kernels, "sum_product", counted)
    monkeypatch.setattr(unlikelihood, "MAX_CHUNK", 9)
    found, again = unlikelihood_loss(CRF(), batch, wrong)
    assert n_tokens == [5 + 4, 4 + 5, 4 + 4, 5 + 4]
    np.testing.assert_allclose(found, losses)
    np.testing.assert_allclose(again.unary, gradient.unary, atol=1e-12)
    np.testing.assert_allclose(again.transitions, gradient.transitions, atol=1e-12)


def test_a_bregman_crf_unlearns_a_rejection():
    rng = np.random.default_rng(0)
    batch = Potentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), np.array([4], "int32"))
    wrong = [Rejection(0, np.eye(3, dtype=bool)[[0, 1, 1, 2]])]
    for _ in range(50):
        losses, gradient = unlikelihood_loss(BCRF(), batch, wrong)
        unary = batch.unary - gradient.unary
        batch = Potentials(unary, batch.transitions - gradient.transitions, batch.lengths)
    assert losses[0] < 0.02


def test_no_rejection_gives_zero():
    batch = Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array([3, 0], "int32"))
    losses, gradient = unlikelihood_loss(CRF(), batch, [])
    assert not losses.any() and not gradient.unary.any() and not gradient.transitions.any()
