"""SAPO, perceptron and MIRA against their definitions."""

import numpy as np
import problems
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numeric import assert_gradient
from oracles import enumeration, reference_search

from bcrf.chain import CRF, MIRA, SAPO, Perceptron, Potentials, nbest, viterbi
from bcrf.kernels import native

pytestmark = pytest.mark.usefixtures("processor")

OBJECTIVES = [SAPO(3), SAPO(2, "beam", 5), Perceptron(), MIRA(), MIRA(3, 0.5)]


def features(batch, tags):
    """Return F of a labeling: indicators (N, T), and counts in the shape of the transitions."""
    unary = np.eye(batch.unary.shape[1])[tags]
    edges = np.zeros_like(batch.transitions)
    for i in batch.inner_edges:
        edges[(tags[i], tags[i + 1]) if edges.ndim == 2 else (i, tags[i], tags[i + 1])] += 1
    return unary, edges


@given(problems.potentials(max_tags=3, max_length=4), st.integers(0, 1000))
def test_sapo_with_all_labelings_equals_the_crf(batch, seed):
    gold = problems.labeling(batch, np.random.default_rng(seed))
    losses, gradient = SAPO(n=100).loss(batch, gold)
    expected, expected_gradient = CRF().loss(batch, gold)
    np.testing.assert_allclose(losses, expected, atol=1e-9)
    np.testing.assert_allclose(gradient.unary, expected_gradient.unary, atol=1e-9)
    np.testing.assert_allclose(gradient.transitions, expected_gradient.transitions, atol=1e-9)


@given(problems.potentials(), st.integers(0, 1000), st.integers(1, 6))
def test_sapo_by_its_definition(batch, seed, n):
    gold = problems.labeling(batch, np.random.default_rng(seed))
    losses, gradient = SAPO(n).loss(batch, gold)
    unary, edges = (-x for x in features(batch, gold))
    for b, ((tags, scores), (rows, _, _)) in enumerate(
        zip(nbest(batch, n), enumeration.sequences(batch), strict=True)
    ):
        log_sum = np.log(np.exp(scores - scores[0]).sum()) + scores[0]
        assert losses[b] == pytest.approx(log_sum - enumeration.score(batch, gold)[b], abs=1e-9)
        for path, p in zip(tags, np.exp(scores - log_sum), strict=True):
            for i, tag in enumerate(path):
                unary[rows.start + i, tag] += p
                if i + 1 < len(path):
                    pair = (tag, path[i + 1])
                    edges[pair if edges.ndim == 2 else (rows.start + i, *pair)] += p
    np.testing.assert_allclose(gradient.unary, unary, atol=1e-9)
    np.testing.assert_allclose(gradient.transitions, edges, atol=1e-9)


@given(problems.potentials(), st.integers(0, 1000))
def test_perceptron_by_its_definition(batch, seed):
    gold = problems.labeling(batch, np.random.default_rng(seed))
    losses, gradient = Perceptron().loss(batch, gold)
    best, scores = viterbi(batch)
    np.testing.assert_allclose(losses, scores - enumeration.score(batch, gold), atol=1e-9)
    for found, x, y in zip(
        (gradient.unary, gradient.transitions), features(batch, best), features(batch, gold),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(found, x - y, atol=1e-12)


def test_inexact_search_may_miss_gold():
    """The loss is negative if the beam misses the best labeling, and this is gold."""
    transitions = np.array([[0.0, 0.0], [9.0, 0.0]])
    batch = Potentials(np.array([[1.0, 0.0], [0, 0]]), transitions, np.array([2], "int32"))
    gold = viterbi(batch)[0]
    assert gold.tolist() == [1, 0]
    assert SAPO(1, "beam", beam_width=1).loss(batch, gold)[0][0] < 0
    assert SAPO(1, "beam", beam_width=2).loss(batch, gold)[0][0] == 0


@given(problems.potentials(max_sequences=1, forbid=False), st.data(), st.integers(1, 4))
def test_mira_solves_its_problem(batch, data, n):
    """Loss and update against a general solver of min |d|^2 / 2 + C sum_k slack_k."""
    minimize = pytest.importorskip("scipy.optimize").minimize
    allowed = data.draw(problems.gold_sets(batch))
    assume(len(allowed) and not allowed.all())
    gold, gold_scores = viterbi(batch, allowed)
    c = 0.3
    losses, gradient = MIRA(n, c).loss(batch, allowed)
    ((tags, scores),) = nbest(batch, n)

    def flat(tags):
        return np.concatenate([x.ravel() for x in features(batch, tags)])

    d = np.stack([flat(gold) - flat(path) for path in tags])
    costs = (~allowed[np.arange(len(gold)), tags]).sum(axis=1)
    gains = costs - (gold_scores[0] - scores)

    def dual(a):
        return (d.T @ a) @ (d.T @ a) / 2 - a @ gains, d @ (d.T @ a) - gains

    options = {"ftol": 1e-15, "gtol": 1e-10}
    bounds = [(0, c)] * len(d)
    start = np.zeros(len(d))
    best = minimize(dual, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    assert losses[0] == pytest.approx(-best.fun, abs=1e-6)
    update = np.concatenate([gradient.unary.ravel(), gradient.transitions.ravel()])
    np.testing.assert_allclose(-update, d.T @ best.x, atol=1e-4)
    slack = np.maximum(0, gains + d @ update).sum()
    assert update @ update / 2 + c * slack == pytest.approx(losses[0], abs=1e-6)


def test_one_mira_update_reaches_the_margin():
    """Potentials minus the gradient score gold above each labeling by its cost, unless C binds."""
    rng = np.random.default_rng(0)
    batch = Potentials(rng.normal(size=(6, 3)), rng.normal(size=(3, 3)), np.array([6], "int32"))
    gold = rng.integers(0, 3, 6).astype("int32")
    ((tags, _),) = nbest(batch, 5)
    _, gradient = MIRA(5, aggressiveness=100).loss(batch, gold)
    updated = Potentials(
        batch.unary - gradient.unary, batch.transitions - gradient.transitions, batch.lengths
    )
    for path in tags:
        margin = enumeration.score(updated, gold)[0] - enumeration.score(updated, path)[0]
        assert margin >= (path != gold).sum() - 1e-6


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
class TestAllObjectives:
    @given(batch=problems.potentials(), data=st.data())
    def test_partial_gold_is_the_best_labeling_it_allows(self, objective, batch, data):
        allowed = data.draw(problems.gold_sets(batch))
        losses, gradient = objective.loss(batch, allowed)
        assert np.isfinite(losses).all() and np.isfinite(gradient.unary).all()
        if isinstance(objective, MIRA):
            return  # costs depend on the set: see test_mira_solves_its_problem
        expected, expected_gradient = objective.loss(batch, viterbi(batch, allowed)[0])
        known = [not allowed[rows].all() for rows, _, _ in enumeration.sequences(batch)]
        known = np.array(known, dtype=bool)
        np.testing.assert_allclose(losses, np.where(known, expected, 0), atol=1e-9)
        d_unary = np.where(known[batch.segment_ids][:, None], expected_gradient.unary, 0)
        np.testing.assert_allclose(gradient.unary, d_unary, atol=1e-9)

    @given(batch=problems.potentials())
    def test_no_annotation_gives_zero(self, objective, batch):
        losses, gradient = objective.loss(batch, np.full(len(batch.unary), -1, "int32"))
        assert not losses.any() and not gradient.unary.any() and not gradient.transitions.any()

    @settings(max_examples=25)
    @given(batch=problems.potentials(forbid=False, max_length=4), data=st.data())
    def test_gradient_is_the_numeric_gradient(self, objective, batch, data):
        """Almost everywhere: the list of labelings does not change within the step."""
        gold = problems.labeling(batch, np.random.default_rng(data.draw(st.integers(0, 99))))
        assert_gradient(lambda p: objective.loss(p, gold), batch, data, step=1e-6)

    def test_infeasible_gold_is_named(self, objective):
        transitions = np.array([[0.0, -np.inf], [0.0, 0.0]])
        batch = Potentials(np.zeros((4, 2)), transitions, np.array([2, 2], "int32"))
        for gold in (np.array([1, 1, 0, 1], "int32"), np.eye(2, dtype=bool)[[1, 1, 0, 1]]):
            with pytest.raises(ValueError, match="sequence 1 has no gold labeling"):
                objective.loss(batch, gold)

    def test_float32_equals_float64(self, objective):
        rng = np.random.default_rng(1)
        lengths = np.array([9, 0, 30, 1], "int32")
        unary, transitions = rng.normal(size=(40, 9)), rng.normal(size=(9, 9))
        gold = rng.integers(0, 9, 40).astype("int32")
        single = Potentials(unary.astype("float32"), transitions.astype("float32"), lengths)
        losses, gradient = objective.loss(single, gold)
        expected, expected_gradient = objective.loss(single.astype("float64"), gold)
        assert losses.dtype == gradient.unary.dtype == gradient.transitions.dtype == "float32"
        np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(gradient.unary, expected_gradient.unary, atol=1e-4)


@pytest.mark.parametrize("backend", [native, reference_search])
def test_hildreth_is_exact_without_a_binding_cap(backend):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(5, 3, 8))
    gram = factors @ factors.transpose(0, 2, 1)
    gains = rng.normal(size=(5, 3))
    gains[0] = -1
    steps = backend.hildreth(np, gains, gram, 1e9)
    left = gains - (gram * steps[:, None, :]).sum(axis=2)
    assert (steps[0] == 0).all() and (steps[1:] > 0).any()
    assert (left < 1e-6).all()
    np.testing.assert_allclose(left[steps > 0], 0, atol=1e-6)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SAPO(0), "n must be at least 1"),
        (lambda: SAPO(5, "beam", 2), "beam_width must be at least n = 5, got 2"),
        (lambda: MIRA(search="bfs"), "search must be one of astar, beam"),
        (lambda: MIRA(aggressiveness=0), "aggressiveness must be positive"),
    ],
)
def test_invalid_options_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
