"""Cross-entropy against soft gold."""

import numpy as np
import problems
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numeric import assert_gradient
from oracles import cross_entropy, enumeration

from bcrf.chain import BCRF, CRF, Marginals, MeanField, Potentials, Unstructured, entropy
from bcrf.chain.distillation import distillation_loss, rename_tags

INFERENCES = [CRF(), Unstructured(), BCRF(200), MeanField(200)]


def draw(batch, seed):
    targets = cross_entropy.draw_target(batch, np.random.default_rng(seed))
    return targets, cross_entropy.marginals(batch, targets)


@pytest.mark.parametrize("inference", INFERENCES, ids=lambda x: type(x).__name__)
@settings(max_examples=25)
@given(problems.potentials(max_tags=3, max_length=4), st.integers(0, 1000))
def test_the_loss_is_the_cross_entropy_of_any_distribution(inference, batch, seed):
    targets, marginals = draw(batch, seed)
    losses, _ = distillation_loss(inference, batch, marginals)
    expected = cross_entropy.cross_entropy(inference.to_crf(batch), targets)
    np.testing.assert_allclose(losses, expected, atol=1e-8)


@settings(max_examples=25)
@given(problems.potentials(max_tags=3, max_length=4), st.data())
def test_the_gradient_is_the_numeric_one(batch, data):
    _, target = draw(batch, data.draw(st.integers(0, 1000)))
    assert_gradient(lambda p: distillation_loss(CRF(), p, target), batch, data)


@given(problems.potentials(max_tags=3, max_length=4), st.integers(0, 1000))
def test_the_rest_of_a_target_teaches_nothing(batch, seed):
    _, target = draw(batch, seed)
    part = Marginals(0.25 * target.unary, 0.25 * target.edges)
    _, whole = distillation_loss(CRF(), batch, target)
    _, gradient = distillation_loss(CRF(), batch, part)
    np.testing.assert_allclose(gradient.unary, 0.25 * whole.unary, atol=1e-7)
    np.testing.assert_allclose(gradient.transitions, 0.25 * whole.transitions, atol=1e-7)


@pytest.mark.parametrize("inference", INFERENCES[1:], ids=lambda x: type(x).__name__)
@settings(max_examples=15)
@given(problems.potentials(max_tags=3, max_length=4, forbid=False, scale=0.5), st.data())
def test_the_gradient_of_other_inferences_at_convergence(inference, batch, data):
    _, target = draw(batch, data.draw(st.integers(0, 1000)))
    assert_gradient(lambda p: distillation_loss(inference, p, target), batch, data, 1e-4, 1e-3)


@given(problems.potentials(max_length=4))
def test_the_loss_is_least_where_the_student_is_the_teacher(batch):
    target = CRF().marginals(batch, edges=True)
    losses, gradient = distillation_loss(CRF(), batch, target)
    np.testing.assert_allclose(losses, entropy(batch), atol=1e-8)
    np.testing.assert_allclose(gradient.unary, 0, atol=1e-9)
    np.testing.assert_allclose(gradient.transitions, 0, atol=1e-8)


@given(problems.potentials(max_length=5), st.integers(0, 1000))
def test_a_certain_target_is_gold(batch, seed):
    tags = problems.labeling(batch, np.random.default_rng(seed))
    certain = batch.restrict(np.eye(batch.unary.shape[1], dtype=bool)[tags])
    target = CRF().marginals(certain, edges=True)
    losses, gradient = distillation_loss(CRF(), batch, target)
    expected, expected_gradient = CRF().loss(batch, tags)
    np.testing.assert_allclose(losses, expected, atol=1e-8)
    np.testing.assert_allclose(gradient.unary, expected_gradient.unary, atol=1e-8)
    np.testing.assert_allclose(gradient.transitions, expected_gradient.transitions, atol=1e-8)


@given(problems.potentials(max_tags=3, max_length=4), st.integers(0, 1000))
def test_renamed_tags_have_the_marginals_of_the_renamed_labelings(batch, seed):
    rng = np.random.default_rng(seed)
    targets, marginals = draw(batch, seed)
    n_tags = batch.unary.shape[1] + 2
    tags = np.where(rng.random(len(batch.unary)) < 0.4, rng.integers(0, n_tags, 1), -1)
    found = rename_tags(marginals, tags.astype("int32"), n_tags)
    expected = cross_entropy.renamed(batch, targets, tags, n_tags)
    np.testing.assert_allclose(found.unary, expected.unary, atol=1e-12)
    np.testing.assert_allclose(found.edges, expected.edges, atol=1e-12)


@pytest.mark.parametrize("inference", [CRF(), BCRF()])
def test_single_precision_stays(inference):
    batch = Potentials(
        np.zeros((3, 2), "float32"), np.zeros((2, 2), "float32"), np.array([2, 1], "int32")
    )
    target = CRF().marginals(batch, edges=True)
    losses, gradient = distillation_loss(inference, batch, target)
    assert losses.dtype == gradient.unary.dtype == gradient.transitions.dtype == "float32"


def test_targets_that_do_not_fit():
    transitions = np.array([[0.0, -np.inf], [0.0, 0.0]])
    batch = Potentials(np.zeros((4, 2)), transitions, np.array([2, 2], "int32"))
    with pytest.raises(ValueError, match=r"edge marginals \(4, 2, 2\), got \(4, 2\) and None"):
        distillation_loss(CRF(), batch, Marginals(np.ones((4, 2)), None))
    unary, edges = enumeration.marginals(batch)
    edges[2] = np.eye(2)[::-1] / 2
    with pytest.raises(ValueError, match="sequence 1: the target has labelings that -inf forbids"):
        distillation_loss(CRF(), batch, Marginals(unary, edges))
