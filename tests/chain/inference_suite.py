"""What every inference of `spacy_bcrf.chain` has to satisfy: subclass it with an instance."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from spacy_bcrf.chain import Inference, Potentials


class InferenceTest(ABC):
    @property
    @abstractmethod
    def inference(self) -> Inference:
        """The instance under test."""

    @property
    def exact(self) -> Inference:
        """The instance where values and gradients are compared numerically: if it iterates, one
        that converges."""
        return self.inference

    @given(problems.potentials(), st.data())
    def test_losses_are_not_negative_and_zero_if_nothing_is_known(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        losses, gradient = self.inference.loss(batch, gold)
        assert (losses >= 0).all()
        assert np.isfinite(gradient.unary).all() and np.isfinite(gradient.transitions).all()
        losses, gradient = self.inference.loss(batch, np.full(len(gold), -1, "int32"))
        assert (losses == 0).all()
        assert not gradient.unary.any() and not gradient.transitions.any()

    @given(problems.potentials(), st.data())
    def test_loss_does_not_grow_with_the_lattice(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        more = gold | data.draw(problems.gold_sets(batch))
        smaller, larger = self.exact.loss(batch, gold)[0], self.exact.loss(batch, more)[0]
        assert (larger <= smaller + 1e-6).all()

    @given(problems.potentials(), st.integers(0, 1000))
    def test_one_labeling_is_the_supervised_loss_in_both_forms_of_gold(self, batch, seed):
        tags = problems.labeling(batch, np.random.default_rng(seed))
        sets = np.eye(batch.unary.shape[1], dtype=bool)[tags]
        by_tags, by_sets = self.inference.loss(batch, tags), self.inference.loss(batch, sets)
        np.testing.assert_allclose(by_tags[0], by_sets[0], atol=1e-9)
        np.testing.assert_allclose(by_tags[1].unary, by_sets[1].unary, atol=1e-9)
        np.testing.assert_allclose(by_tags[1].transitions, by_sets[1].transitions, atol=1e-9)

    @given(problems.potentials(), st.integers(0, 1000))
    def test_unknown_tags_are_sets_of_all_tags(self, batch, seed):
        rng = np.random.default_rng(seed)
        tags = problems.labeling(batch, rng)
        unknown = rng.random(len(tags)) < 0.4
        sets = np.eye(batch.unary.shape[1], dtype=bool)[tags] | unknown[:, None]
        tags[unknown] = -1
        by_tags, by_sets = self.inference.loss(batch, tags), self.inference.loss(batch, sets)
        np.testing.assert_allclose(by_tags[0], by_sets[0], atol=1e-9)
        np.testing.assert_allclose(by_tags[1].unary, by_sets[1].unary, atol=1e-9)

    @given(problems.potentials(forbid=False, max_length=4, scale=1.0), st.data())
    def test_gradient_is_numeric_gradient(self, batch, data):
        gold = data.draw(problems.gold_sets(batch))
        _, gradient = self.exact.loss(batch, gold)
        for name in ("unary", "transitions"):
            values = getattr(batch, name)
            if not values.size:
                continue
            for _ in range(3):
                at = tuple(data.draw(st.integers(0, n - 1)) for n in values.shape)
                numeric = self._difference(batch, gold, name, at)
                assert getattr(gradient, name)[at] == pytest.approx(numeric, abs=1e-5)

    def _difference(self, batch, gold, name, at, step=1e-4):
        totals = []
        for sign in (1, -1):
            values = {key: getattr(batch, key) for key in ("unary", "transitions", "lengths")}
            values[name] = values[name].copy()
            values[name][at] += sign * step
            totals.append(self.exact.loss(Potentials(**values), gold)[0].sum())
        return (totals[0] - totals[1]) / (2 * step)

    @given(problems.potentials())
    def test_marginals_are_probabilities(self, batch):
        marginals = self.inference.marginals(batch, edges=True)
        np.testing.assert_allclose(marginals.unary.sum(axis=1), 1, atol=1e-9)
        sums = marginals.edges.sum(axis=(1, 2))
        np.testing.assert_allclose(sums[batch.inner_edges], 1, atol=1e-9)
        assert not sums[batch.ends].any()
        assert not marginals.unary[batch.unary == -np.inf].any()

    @given(problems.potentials())
    def test_batch_is_one_by_one(self, batch):
        whole = self.inference.marginals(batch).unary
        values, tags = self.inference.log_partition(batch), self.inference.decode(batch)
        for b, (rows, _, _) in enumerate(enumeration.sequences(batch)):
            one = _select(batch, b, rows)
            np.testing.assert_allclose(self.inference.log_partition(one)[0], values[b], rtol=1e-12)
            np.testing.assert_allclose(self.inference.marginals(one).unary, whole[rows], atol=1e-12)
            np.testing.assert_array_equal(self.inference.decode(one), tags[rows])

    @given(problems.potentials(forbid=False))
    def test_scores_may_be_huge(self, batch):
        """Scores of +-1e4: the best labeling has all the probability."""
        signs = Potentials(np.sign(batch.unary) * 1e4, batch.transitions, batch.lengths)
        assert np.isfinite(self.inference.log_partition(signs)).all()
        marginals = self.inference.marginals(signs).unary
        np.testing.assert_allclose(marginals.sum(axis=1), 1, atol=1e-6)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("shared", [True, False])
    def test_lattice_whose_only_labeling_is_very_unlikely(self, dtype, shared):
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
        ):
            with pytest.raises(ValueError, match="sequence 3 has no allowed labeling"):
                call(batch)

    def test_infeasible_gold_is_named(self):
        transitions = np.array([[0.0, -np.inf], [0.0, 0.0]])
        batch = Potentials(np.zeros((4, 2)), transitions, np.array([2, 2], "int32"))
        gold = np.array([1, 1, 0, 1], "int32")
        with pytest.raises(ValueError, match="sequence 1 has no gold labeling"):
            self.inference.loss(batch, gold)
        with pytest.raises(ValueError, match="sequence 1 has no gold labeling"):
            self.inference.loss(batch, np.eye(2, dtype=bool)[gold])


def _select(batch: Potentials, b: int, rows: slice) -> Potentials:
    transitions = batch.transitions if batch.transitions.ndim == 2 else batch.transitions[rows]
    return Potentials(batch.unary[rows], transitions, batch.lengths[b : b + 1])
