"""Labelings that are known to be wrong, and the expected share of tags, against enumeration."""

import numpy as np
import problems
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numeric import assert_gradient
from oracles import enumeration

from spacy_bcrf.chain import (
    BCRF,
    CRF,
    ExpectedEntityRatio,
    Potentials,
    Rejection,
    unlikelihood_loss,
)
from spacy_bcrf.chain import unlikelihood

pytestmark = pytest.mark.usefixtures("processor")


@st.composite
def rejections(draw, batch):
    """Some of the sequences', each a set of labelings that is not all of them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = [b for b, length in enumerate(batch.lengths.tolist()) if length]
    assume(lengths)
    owners = draw(st.lists(st.sampled_from(lengths), min_size=1, max_size=3))
    tags = batch.unary.shape[1]
    found = []
    for owner in owners:
        allowed = rng.random((batch.lengths[owner], tags)) < 0.6
        allowed[np.arange(len(allowed)), rng.integers(0, tags, len(allowed))] = True
        found.append(Rejection(owner, allowed))
    return found


@given(problems.potentials(max_tags=3, max_length=4), st.data())
def test_loss_is_enumerated(batch, data):
    wrong = data.draw(rejections(batch))
    losses, _ = unlikelihood_loss(CRF(), batch, wrong)
    expected = np.zeros(len(batch.lengths))
    for b, (_, u, w) in enumerate(enumeration.sequences(batch)):
        paths, scores = enumeration.labelings(u, w)
        p = np.exp(scores - scores.max())
        p /= p.sum()
        for sequence, allowed in wrong:
            if sequence == b:
                is_wrong = allowed[np.arange(len(u)), paths].all(axis=1)
                expected[b] += -np.log1p(-min(p[is_wrong].sum(), 0.999))
    np.testing.assert_allclose(losses, expected, atol=1e-7)


@given(problems.potentials(max_tags=3, max_length=4, scale=1.0), st.data())
def test_gradient_is_numeric_gradient(batch, data):
    wrong = data.draw(rejections(batch))
    losses, _ = unlikelihood_loss(CRF(), batch, wrong)
    # Where almost all is wrong the loss is cut off.
    assume(losses.max() < 4)
    assert_gradient(lambda p: unlikelihood_loss(CRF(), p, wrong), batch, data)


def test_sequences_are_inferred_once_and_rejections_in_chunks(monkeypatch):
    """However many there are, and with the same result."""
    rng = np.random.default_rng(0)
    lengths = np.array([5, 3, 4], "int32")
    batch = Potentials(rng.normal(size=(12, 3)), rng.normal(size=(12, 3, 3)), lengths)
    wrong = [Rejection(b, rng.random((lengths[b], 3)) < 0.7) for b in [2, 0, 2, 2, 0, 2]]
    losses, gradient = unlikelihood_loss(CRF(), batch, wrong)
    n_tokens = []

    class Counted(CRF):
        def infer(self, potentials, *args, **options):
            n_tokens.append(len(potentials.unary))
            return super().infer(potentials, *args, **options)

    monkeypatch.setattr(unlikelihood, "MAX_CHUNK", 9)
    found, again = unlikelihood_loss(Counted(), batch, wrong)
    assert n_tokens == [5 + 4, 4 + 5, 4 + 4, 5 + 4]
    np.testing.assert_allclose(found, losses)
    np.testing.assert_allclose(again.unary, gradient.unary, atol=1e-12)
    np.testing.assert_allclose(again.transitions, gradient.transitions, atol=1e-12)


def test_a_bregman_crf_learns_it_too():
    rng = np.random.default_rng(0)
    batch = Potentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), np.array([4], "int32"))
    wrong = [Rejection(0, np.eye(3, dtype=bool)[[0, 1, 1, 2]])]
    for _ in range(50):
        losses, gradient = unlikelihood_loss(BCRF(), batch, wrong)
        unary = batch.unary - gradient.unary
        batch = Potentials(unary, batch.transitions - gradient.transitions, batch.lengths)
    assert losses[0] < 0.02


def test_nothing_rejected_is_zero():
    batch = Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array([3, 0], "int32"))
    losses, gradient = unlikelihood_loss(CRF(), batch, [])
    assert not losses.any() and not gradient.unary.any() and not gradient.transitions.any()


@given(problems.potentials(max_tags=3, max_length=4, scale=1.0), st.data())
def test_ratio(batch, data):
    assume(len(batch.unary))
    tags = np.arange(batch.unary.shape[1]) > 0
    node, _ = enumeration.marginals(batch)
    share = node[:, tags].sum() / len(node)
    ratio = ExpectedEntityRatio(
        data.draw(st.sampled_from([0.15, 0.5, 0.9])), margin=0.05, weight=3.0
    )
    loss, _ = ratio.loss(batch, tags)
    excess = abs(share - ratio.ratio) - 0.05
    assert loss == pytest.approx(3 * max(0, excess), abs=1e-8)
    assume(abs(excess) > 1e-3)

    def as_array(potentials):
        value, gradient = ratio.loss(potentials, tags)
        return np.array([value]), gradient

    assert_gradient(as_array, batch, data)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ratio": 0.0}, "entity_ratio.ratio must be between 0 and 1, got 0.0"),
        ({"ratio": 0.1, "margin": 1.0}, r"entity_ratio.margin must be in \[0, 1\), got 1.0"),
        ({"ratio": 0.1, "weight": -1.0}, "entity_ratio.weight must be positive, got -1.0"),
        (
            {"ratoi": 0.1},
            "entity_ratio must have the numbers ratio, margin, weight, got {'ratoi': 0.1}",
        ),
        ({"ratio": "0.1"}, "entity_ratio must have the numbers ratio, margin, weight, got"),
    ],
)
def test_bad_constants_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ExpectedEntityRatio.from_options(options)
