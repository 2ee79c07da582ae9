"""Properties of every inference in `bcrf.chain`. A subclass supplies the instance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import problems
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numeric import assert_gradient
from oracles import enumeration

from bcrf import kernels
from bcrf.chain import CRF, Inference, Potentials


def split(batch: Potentials) -> Iterator[tuple[slice, Potentials]]:
    """Yield the rows of each sequence, and a batch of this sequence alone."""
    for b, (rows, _, _) in enumerate(enumeration.sequences(batch)):
        transitions = batch.transitions if batch.transitions.ndim == 2 else batch.transitions[rows]
        yield rows, Potentials(batch.unary[rows], transitions, batch.lengths[b : b + 1])


class InferenceTest(ABC):
    @property
    @abstractmethod
    def inference(self) -> Inference:
        """The instance under test."""

    @property
    def exact(self) -> Inference:
        """An instance that converges, for numeric comparisons."""
        return self.inference

    @given(problems.potentials(), st.data())
    def test_losses_are_not_negative_and_zero_without_annotation(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        losses, gradient = self.inference.loss(batch, gold)
        assert (losses >= 0).all()
        assert np.isfinite(gradient.unary).all() and np.isfinite(gradient.transitions).all()
        losses, gradient = self.inference.loss(batch, np.full(len(gold), -1, "int32"))
        assert (losses == 0).all()
        # A GPU sums the edges of sequences in any order, so sums differ in their last bits.
        np.testing.assert_allclose(gradient.unary, 0, atol=1e-13)
        np.testing.assert_allclose(gradient.transitions, 0, atol=1e-13)

    @given(problems.potentials(), st.data())
    def test_loss_does_not_grow_with_the_lattice(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        more = gold | data.draw(problems.gold_sets(batch))
        smaller, larger = self.exact.loss(batch, gold)[0], self.exact.loss(batch, more)[0]
        assert (larger <= smaller + 1e-6).all()

    @given(problems.potentials(), st.integers(0, 1000))
    def test_both_forms_of_complete_gold_give_the_same_loss(self, batch, seed):
        tags = problems.labeling(batch, np.random.default_rng(seed))
        sets = np.eye(batch.unary.shape[1], dtype=bool)[tags]
        self.assert_same_loss(batch, tags, sets)

    @given(problems.potentials(), st.integers(0, 1000))
    def test_an_unknown_tag_is_the_set_of_all_tags(self, batch, seed):
        rng = np.random.default_rng(seed)
        tags = problems.labeling(batch, rng)
        unknown = rng.random(len(tags)) < 0.4
        sets = np.eye(batch.unary.shape[1], dtype=bool)[tags] | unknown[:, None]
        tags[unknown] = -1
        self.assert_same_loss(batch, tags, sets)

    def assert_same_loss(self, batch, gold, same_gold):
        losses, gradient = self.inference.loss(batch, gold)
        expected, expected_gradient = self.inference.loss(batch, same_gold)
        np.testing.assert_allclose(losses, expected, atol=1e-9)
        np.testing.assert_allclose(gradient.unary, expected_gradient.unary, atol=1e-9)
        np.testing.assert_allclose(gradient.transitions, expected_gradient.transitions, atol=1e-9)

    @settings(max_examples=25)
    @given(problems.potentials(forbid=False, max_length=4, scale=1.0), st.data())
    def test_gradient_is_the_numeric_gradient(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        assert_gradient(lambda p: self.exact.loss(p, gold), batch, data, 1e-4, 1e-5)

    @given(problems.potentials())
    def test_marginals_are_probabilities(self, batch):
        marginals = self.inference.marginals(batch, edges=True)
        np.testing.assert_allclose(marginals.unary.sum(axis=1), 1, atol=1e-9)
        sums = marginals.edges.sum(axis=(1, 2))
        np.testing.assert_allclose(sums[batch.inner_edges], 1, atol=1e-9)
        assert not sums[batch.ends].any()
        assert not marginals.unary[batch.unary == -np.inf].any()

    @given(problems.potentials(forbid=False, scale=1.5))
    def test_the_chain_has_the_marginals_of_the_inference(self, batch):
        chain = self.exact.to_crf(batch)
        found, expected = (
            x.marginals(y, edges=True) for x, y in ((CRF(), chain), (self.exact, batch))
        )
        np.testing.assert_allclose(found.unary, expected.unary, atol=1e-9)
        np.testing.assert_allclose(found.edges, expected.edges, atol=1e-9)

    @given(problems.potentials(), st.integers(0, 1000))
    def test_the_chain_allows_the_same_labelings(self, batch, seed):
        tags = np.random.default_rng(seed).integers(0, batch.unary.shape[1], len(batch.unary))
        chain = self.inference.to_crf(batch)
        scores = (kernels.path_scores(*p.arrays, tags.astype("int32")) for p in (batch, chain))
        allowed, found = (x > -np.inf for x in scores)
        # The chain may also forbid tags that no allowed labeling uses.
        np.testing.assert_array_equal(found, allowed)

    @pytest.mark.parametrize("scale", [2.0, 30.0, 3000.0])
    def test_the_chain_in_single_precision(self, scale):
        rng = np.random.default_rng(0)
        unary, transitions = rng.normal(0, scale, (40, 5)), rng.normal(0, 1, (5, 5))
        transitions[0, 1:] = -np.inf
        batch = Potentials(unary, transitions, np.array([1, 2, 0, 3, 34], "int32"))
        found = CRF().marginals(self.inference.to_crf(batch.astype("float32"))).unary
        expected = CRF().marginals(self.inference.to_crf(batch)).unary
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(1, scale / 10))

    @given(problems.potentials())
    def test_edge_marginals_sum_to_those_of_shared_transitions(self, batch):
        assume(batch.transitions.ndim == 2)
        each, total = (self.inference.infer(batch, edges).edges for edges in ("each", "sum"))
        np.testing.assert_allclose(total, each.sum(axis=0), atol=1e-9)

    @given(problems.potentials())
    def test_a_batch_equals_its_sequences_one_by_one(self, batch):
        marginals = self.inference.marginals(batch).unary
        values, tags = self.inference.log_partition(batch), self.inference.decode(batch)
        for value, (rows, one) in zip(values, split(batch), strict=True):
            np.testing.assert_allclose(self.inference.log_partition(one)[0], value, rtol=1e-12)
            found = self.inference.marginals(one).unary
            np.testing.assert_allclose(found, marginals[rows], atol=1e-12)
            np.testing.assert_array_equal(self.inference.decode(one), tags[rows])

    @given(problems.potentials(forbid=False))
    def test_huge_scores(self, batch):
        """Scores of +-1e4: the tags of highest score have all the probability."""
        signs = Potentials(np.sign(batch.unary) * 1e4, batch.transitions, batch.lengths)
        assert np.isfinite(self.inference.log_partition(signs)).all()
        marginals = self.inference.marginals(signs).unary
        np.testing.assert_allclose(marginals.sum(axis=1), 1, atol=1e-6)
        lower = signs.unary < signs.unary.max(axis=1, keepdims=True)
        np.testing.assert_allclose(marginals[lower], 0, atol=1e-6)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("shared", [True, False])
    def test_a_lattice_with_one_very_unlikely_labeling(self, dtype, shared):
        n, t, far = 12, 5, 8000.0
        rng = np.random.default_rng(0)
        unary = rng.normal(size=(n, t)).astype(dtype)
        transitions = rng.normal(size=(t, t) if shared else (n, t, t)).astype(dtype)
        only = rng.integers(0, t, n).astype("int32")
        unary[np.arange(n), only] -= far
        batch = Potentials(unary, transitions, np.array([n], "int32"))
        losses, gradient = self.inference.loss(batch, only)
        assert losses[0] == pytest.approx(far * n, rel=1e-2)
        np.testing.assert_allclose(gradient.unary[np.arange(n), only], -1, atol=1e-5)
        sets = np.eye(t, dtype=bool)[only]
        np.testing.assert_allclose(self.inference.loss(batch, sets)[0], losses, rtol=1e-5)
        restricted = self.inference.marginals(batch.restrict(sets)).unary
        np.testing.assert_allclose(restricted, sets, atol=1e-5)

    def test_empty_batches(self):
        for lengths in ([], [0], [0, 0]):
            batch = Potentials(
                np.zeros((0, 3), "float32"), np.zeros((3, 3), "float32"), np.array(lengths, "int32")
            )
            assert self.inference.log_partition(batch).tolist() == [0.0] * len(lengths)
            assert self.inference.decode(batch).shape == (0,)
            losses, gradient = self.inference.loss(batch, np.zeros(0, "int32"))
            assert losses.shape == (len(lengths),) and gradient.unary.shape == (0, 3)

    def test_infeasible_sequences_are_named(self):
        unary = np.zeros((6, 2))
        unary[4] = -np.inf
        batch = Potentials(unary, np.zeros((2, 2)), np.array([2, 0, 1, 3], "int32"))
        for call in (
            self.inference.log_partition,
            self.inference.marginals,
            self.inference.decode,
            lambda p: CRF().log_partition(self.inference.to_crf(p)),
        ):
            with pytest.raises(ValueError, match="sequence 3 has no allowed labeling"):
                call(batch)

    def test_infeasible_gold_is_named(self):
        transitions = np.array([[0.0, -np.inf], [0.0, 0.0]])
        batch = Potentials(np.zeros((4, 2)), transitions, np.array([2, 2], "int32"))
        tags = np.array([1, 1, 0, 1], "int32")
        for gold in (tags, np.eye(2, dtype=bool)[tags]):
            with pytest.raises(ValueError, match="sequence 1 has no gold labeling"):
                self.inference.loss(batch, gold)
