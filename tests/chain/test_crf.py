"""The CRF against enumeration."""

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inference_suite import InferenceTest
from oracles import enumeration

from bcrf.chain import CRF, Potentials

pytestmark = pytest.mark.usefixtures("processor")


class TestCRF(InferenceTest):
    inference = CRF()

    @given(problems.potentials())
    def test_log_partition_is_enumerated(self, batch):
        np.testing.assert_allclose(
            CRF().log_partition(batch), enumeration.log_partition(batch), rtol=1e-10, atol=1e-10
        )

    @given(problems.potentials())
    def test_marginals_are_enumerated(self, batch):
        unary, edges = enumeration.marginals(batch)
        marginals = CRF().marginals(batch, edges=True)
        np.testing.assert_allclose(marginals.unary, unary, atol=1e-10)
        np.testing.assert_allclose(marginals.edges, edges, atol=1e-10)

    @given(problems.potentials(), st.integers(0, 1000))
    def test_loss_is_enumerated(self, batch, seed):
        tags = problems.labeling(batch, np.random.default_rng(seed))
        expected = enumeration.log_partition(batch) - enumeration.score(batch, tags)
        np.testing.assert_allclose(CRF().loss(batch, tags)[0], expected, atol=1e-9)

    @given(problems.potentials(), st.data())
    def test_partial_loss_and_gradient_are_enumerated(self, batch, data):
        allowed = data.draw(problems.gold_sets(batch))
        losses, gradient = CRF().loss(batch, allowed)
        restricted = batch.restrict(allowed)
        expected = enumeration.log_partition(batch) - enumeration.log_partition(restricted)
        np.testing.assert_allclose(losses, expected, atol=1e-9)
        (unary, edges), (gold_unary, gold_edges) = map(enumeration.marginals, (batch, restricted))
        np.testing.assert_allclose(gradient.unary, unary - gold_unary, atol=1e-9)
        d_transitions = edges - gold_edges
        if batch.transitions.ndim == 2:
            d_transitions = d_transitions.sum(axis=0)
        np.testing.assert_allclose(gradient.transitions, d_transitions, atol=1e-9)


@pytest.mark.parametrize("n, shared", [(200_000, True), (50_000, False)])
def test_long_sequence(n, shared):
    """Sums need float64, and shared transitions O(N T) memory."""
    t = 5
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(n, t)).astype("float32")
    transitions = rng.normal(size=(t, t) if shared else (n, t, t)).astype("float32")
    batch = Potentials(unary, transitions, np.array([n], "int32"))
    gold = rng.integers(0, t, n).astype("int32")
    losses, gradient = CRF().loss(batch, gold)
    expected, expected_gradient = CRF().loss(batch.astype("float64"), gold)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient.unary, expected_gradient.unary, atol=2e-6)
    np.testing.assert_allclose(
        gradient.transitions,
        expected_gradient.transitions,
        rtol=1e-5,
        atol=1e-2 if shared else 1e-5,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_factors_of_a_small_partition_function_do_not_underflow_together(dtype):
    """Each of two tokens has a forbidden tag 450 above the allowed one: a factor of exp(-450)."""
    unary = np.array([[0, 0], [0, 450], [0, 450]], dtype)
    transitions = np.array([[0, -np.inf], [0, -np.inf]], dtype)
    potentials = Potentials(unary, transitions, np.array([3], dtype="int32"))
    np.testing.assert_allclose(CRF().log_partition(potentials), [np.log(2)], rtol=1e-6)
    expected = [[0.5, 0.5], [1, 0], [1, 0]]
    np.testing.assert_allclose(CRF().marginals(potentials).unary, expected, rtol=1e-6)
