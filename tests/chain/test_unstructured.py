"""Independent classification against a CRF without transitions."""

import numpy as np
import problems
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_suite import InferenceTest
from numeric import assert_gradient
from oracles import enumeration

from bcrf.chain import CRF, Potentials, Unstructured

pytestmark = pytest.mark.usefixtures("processor")


class TestUnstructured(InferenceTest):
    inference = Unstructured()

    @given(problems.potentials(forbid=False), st.data())
    def test_is_the_crf_without_transitions(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        flat = Potentials(batch.unary, batch.transitions * 0, batch.lengths)
        losses, gradient = Unstructured().loss(batch, gold)
        expected, expected_gradient = CRF().loss(flat, gold)
        np.testing.assert_allclose(losses, expected, atol=1e-9)
        np.testing.assert_allclose(gradient.unary, expected_gradient.unary, atol=1e-9)
        assert not gradient.transitions.any()
        found = Unstructured().marginals(batch, edges=True)
        exact = CRF().marginals(flat, edges=True)
        np.testing.assert_allclose(found.unary, exact.unary, atol=1e-9)
        np.testing.assert_allclose(found.edges, exact.edges, atol=1e-9)

    @settings(max_examples=25)
    @given(problems.potentials(), st.data())
    def test_gradient_under_constraints(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        assert_gradient(lambda p: Unstructured().loss(p, gold), batch, data)

    @given(problems.potentials())
    def test_decoded_labelings_are_allowed(self, batch):
        assert (enumeration.score(batch, Unstructured().decode(batch)) > -np.inf).all()
