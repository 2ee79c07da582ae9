"""The expected entity ratio loss against enumeration."""

import numpy as np
import problems
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numeric import assert_gradient
from oracles import enumeration

from bcrf.chain import BCRF, CRF, MeanField, Unstructured
from bcrf.chain.expected_entity_ratio import ExpectedEntityRatio

pytestmark = pytest.mark.usefixtures("processor")


@settings(max_examples=25)
@given(problems.potentials(max_tags=3, max_length=4, scale=1.0), st.data())
def test_loss_is_enumerated_and_gradient_is_numeric(batch, data):
    assume(len(batch.unary))
    tags = np.arange(batch.unary.shape[1]) > 0
    marginals, _ = enumeration.marginals(batch)
    share = marginals[:, tags].sum() / len(marginals)
    ratio = ExpectedEntityRatio(
        data.draw(st.sampled_from([0.15, 0.5, 0.9])), margin=0.05, weight=3.0
    )
    loss, _ = ratio.loss(CRF(), batch, tags)
    excess = abs(share - ratio.ratio) - 0.05
    assert loss == pytest.approx(3 * max(0, excess), abs=1e-8)
    assume(abs(excess) > 1e-3)

    def as_array(potentials):
        value, gradient = ratio.loss(CRF(), potentials, tags)
        return np.array([value]), gradient

    assert_gradient(as_array, batch, data)


@pytest.mark.parametrize(
    "inference", [BCRF(300, relaxation=1), MeanField(100), Unstructured()], ids=repr
)
@settings(max_examples=10)
@given(problems.potentials(max_tags=3, max_length=4, scale=0.5, forbid=False), st.data())
def test_the_ratio_is_of_the_chain_and_its_gradient_numeric(inference, batch, data):
    assume(len(batch.unary))
    tags = np.arange(batch.unary.shape[1]) > 0
    share = CRF().marginals(inference.to_crf(batch)).unary[:, tags].sum() / len(batch.unary)
    ratio = ExpectedEntityRatio(0.999, margin=0.0, weight=3.0)
    loss, _ = ratio.loss(inference, batch, tags)
    assert loss == pytest.approx(3 * abs(share - 0.999), abs=1e-8)

    def as_array(potentials):
        value, gradient = ratio.loss(inference, potentials, tags)
        return np.array([value]), gradient

    assert_gradient(as_array, batch, data)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ratio": 0.0}, "entity_ratio.ratio must be between 0 and 1, got 0.0"),
        ({"ratio": 0.1, "margin": 1.0}, r"entity_ratio.margin must be in \[0, 1\), got 1.0"),
        ({"ratio": 0.1, "weight": -1.0}, "entity_ratio.weight must be positive, got -1.0"),
    ],
)
def test_invalid_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ExpectedEntityRatio(**options)
