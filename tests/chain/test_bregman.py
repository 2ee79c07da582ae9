"""The Bregman CRF against a general solver, and the bounds of its values."""

import numpy as np
import problems
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_suite import InferenceTest
from oracles import enumeration, explicit_bregman

from bcrf.chain import BCRF, CRF, Potentials, viterbi

pytestmark = pytest.mark.usefixtures("processor")

CONVERGED = BCRF(n_iter=3000, tolerance=1e-12)


class TestBCRF(InferenceTest):
    inference = BCRF()
    exact = CONVERGED


class TestPlainBCRF(InferenceTest):
    inference = BCRF(n_iter=5, relaxation=1.0)
    exact = BCRF(n_iter=5000, relaxation=1.0, tolerance=1e-12)


class TestEstimatedBCRF(InferenceTest):
    inference = BCRF(relaxation="auto")
    exact = BCRF(n_iter=3000, relaxation="auto", tolerance=1e-12)


@settings(deadline=None, max_examples=25)
@given(problems.potentials(max_tags=3, max_length=5, max_sequences=2, scale=1.0))
def test_converged_values_solve_the_convex_program(batch):
    """B(w) = max <q, w> + H(q) over the tagging polytope, by a general solver."""
    values = CONVERGED.log_partition(batch)
    marginals = CONVERGED.marginals(batch, edges=True).edges
    for b, (rows, u, w) in enumerate(enumeration.sequences(batch)):
        if len(u) < 2:
            assert values[b] == pytest.approx(enumeration.log_partition(batch)[b], abs=1e-9)
            continue
        value, q = _solve(u, w)
        assert values[b] == pytest.approx(value, abs=1e-6)
        np.testing.assert_allclose(marginals[rows][: len(u) - 1], q, atol=1e-4)


def _solve(u, w):
    """Minimize the dual: independent edges, coupled by multipliers at the inner nodes."""
    minimize = pytest.importorskip("scipy.optimize").minimize
    length, tags = u.shape
    scores = w + u[1:, None, :]
    scores[0] += u[0][:, None]
    # The multiplier of a forbidden tag has no finite minimum, so the solver omits it.
    alive = _reachable(u, w)

    def edges(multipliers):
        x = np.where(alive[1:-1], multipliers.reshape(length - 2, tags), 0)
        shifted = scores.copy()
        shifted[:-1] -= x[:, None, :]
        shifted[1:] += x[:, :, None]
        shifted[~(alive[:-1, :, None] & alive[1:, None, :])] = -np.inf
        top = shifted.max(axis=(1, 2))
        q = np.exp(shifted - top[:, None, None])
        z = q.sum(axis=(1, 2))
        return (top + np.log(z)).sum(), q / z[:, None, None]

    def objective(multipliers):
        value, q = edges(multipliers)
        return value, (q[1:].sum(axis=2) - q[:-1].sum(axis=1)).ravel() * alive[1:-1].ravel()

    start = np.zeros((length - 2) * tags)
    if start.size:
        options = {"maxiter": 20000, "ftol": 1e-15, "gtol": 1e-10}
        start = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    return edges(start)


def _reachable(u, w):
    alive = u > -np.inf
    for i in range(1, len(u)):
        alive[i] &= ((w[i - 1] > -np.inf) & alive[i - 1][:, None]).any(axis=0)
    for i in range(len(u) - 2, -1, -1):
        alive[i] &= ((w[i] > -np.inf) & alive[i + 1][None, :]).any(axis=1)
    return alive


@given(problems.potentials(), st.integers(1, 12), st.sampled_from([1.0, 1.25, 1.6, "auto"]))
def test_an_unconverged_value_is_an_upper_bound(batch, n_iter, relaxation):
    bound = BCRF(n_iter=n_iter, relaxation=relaxation).log_partition(batch)
    assert (bound >= CONVERGED.log_partition(batch) - 1e-8).all()


@given(problems.potentials(), st.integers(1, 12))
def test_the_value_of_a_feasible_point_is_a_lower_bound(batch, n_iter):
    value = CONVERGED.log_partition(batch)
    assert (BCRF(n_iter=n_iter).infer(batch, bound="lower").value <= value + 1e-8).all()
    converged = CONVERGED.infer(batch, bound="lower").value
    np.testing.assert_allclose(converged, value, atol=1e-6)


@given(problems.potentials())
def test_mean_regularization_is_at_least_the_log_partition_of_the_crf(batch):
    """The entropy of the arcs is at least that of the labelings."""
    assert (CONVERGED.log_partition(batch) >= CRF().log_partition(batch) - 1e-8).all()


@given(problems.potentials(max_length=2))
def test_two_tokens_are_a_softmax_over_pairs(batch):
    np.testing.assert_allclose(
        BCRF(n_iter=1).log_partition(batch), CRF().log_partition(batch), atol=1e-9
    )


def test_over_relaxation_converges_faster():
    rng = np.random.default_rng(0)
    batch = Potentials(
        rng.normal(0, 1, (300, 9)), rng.normal(0, 3, (9, 9)), np.full(10, 30, "int32")
    )
    truth = CONVERGED.log_partition(batch)
    gaps = {
        relaxation: (BCRF(relaxation=relaxation).log_partition(batch) - truth).mean()
        for relaxation in (1.0, 1.25, "auto")
    }
    assert gaps[1.25] < gaps[1.0] / 2
    assert gaps["auto"] < gaps[1.0]


def test_tolerance_stops_early():
    rng = np.random.default_rng(0)
    batch = Potentials(rng.normal(0, 2, (90, 5)), rng.normal(0, 2, (5, 5)), np.full(3, 30, "int32"))
    stopped = BCRF(n_iter=1000, tolerance=1e-3).marginals(batch).unary
    np.testing.assert_allclose(stopped, CONVERGED.marginals(batch).unary, atol=2e-3)
    assert np.abs(stopped - CONVERGED.marginals(batch).unary).max() > 1e-9


@pytest.mark.parametrize(
    "flow, relaxation, measured",
    [
        ("outgoing", 1.0, {2: 0.818, 5: 0.928, 10: 0.963, 20: 0.974}),
        ("mean", 1.0, {2: 0.862, 5: 0.941, 10: 0.967, 20: 0.974}),
        ("outgoing", 1.25, {2: 0.818, 5: 0.939, 10: 0.972, 20: 0.975}),
    ],
)
def test_decoding_by_sharpened_marginals_agrees_with_viterbi(flow, relaxation, measured):
    rng = np.random.default_rng(0)
    batch = Potentials(
        rng.normal(0, 2, (3000, 17)), rng.normal(0, 1, (17, 17)), np.full(100, 30, "int32")
    )
    best = viterbi(batch)[0]
    agreement = {k: (BCRF(k, relaxation, flow=flow).decode(batch) == best).mean() for k in measured}
    assert agreement == pytest.approx(measured, abs=1e-3)


@given(problems.potentials(max_tags=3, max_length=7, max_sequences=2), st.integers(1, 12))
def test_n_iter_is_the_number_of_projections_of_algorithm_1(batch, n_iter):
    marginals = BCRF(n_iter, relaxation=1).marginals(batch, edges=True)
    for rows, u, w in enumeration.sequences(batch):
        if len(u) > 1:
            q = explicit_bregman.project_arcs(enumeration.reachable(u, w), w, n_iter)
            np.testing.assert_allclose(marginals.edges[rows][:-1], q, atol=1e-12)
            expected = explicit_bregman.mean_marginals(q)
            np.testing.assert_allclose(marginals.unary[rows], expected, atol=1e-12)


@given(
    problems.potentials(scale=2.0), st.integers(1, 12), st.sampled_from([1.0, 1.25, 1.6, "auto"])
)
def test_the_chain_is_normalized_before_convergence(batch, n_iter, relaxation):
    chain = BCRF(n_iter, relaxation).to_crf(batch)
    np.testing.assert_array_equal(chain.transitions, batch.transitions)
    np.testing.assert_allclose(CRF().log_partition(chain), 0, atol=1e-10)


@given(problems.potentials(max_tags=3, max_length=7, max_sequences=2), st.integers(1, 12))
def test_violations_bound_the_chain_s_distance_from_the_arcs(batch, n_iter):
    """Position i differs from the flow out of it by at most the violations at 1 to i."""
    chain = CRF().marginals(BCRF(n_iter, relaxation=1).to_crf(batch)).unary
    for rows, u, w in enumeration.sequences(batch):
        if len(u) < 2:
            continue
        q = explicit_bregman.project_arcs(enumeration.reachable(u, w), w, n_iter)
        bounds = np.concatenate([[0], explicit_bregman.violations(q).cumsum()])
        distances = np.abs(chain[rows] - explicit_bregman.outgoing_marginals(q)).sum(axis=1)
        assert (distances[:-1] <= bounds + 1e-10).all()
        # The last token has no flow out: its flow in is a result of the position before it.
        assert distances[-1] <= bounds[-1] + 1e-10


def test_at_convergence_the_chain_has_the_marginals():
    rng = np.random.default_rng(0)
    lengths = np.array([1, 2, 3, 30, 0, 9], "int32")
    batch = Potentials(rng.normal(0, 2, (45, 5)), rng.normal(0, 1, (5, 5)), lengths)
    inference = BCRF(1000)
    expected = inference.marginals(batch, edges=True)
    found = CRF().marginals(inference.to_crf(batch), edges=True)
    np.testing.assert_allclose(found.unary, expected.unary, atol=1e-12)
    np.testing.assert_allclose(found.edges, expected.edges, atol=1e-12)
    # It is another distribution than the CRF of the same potentials.
    assert np.abs(found.unary - CRF().marginals(batch).unary).max() > 0.1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_iter": 0}, "n_iter must be at least 1, got 0"),
        ({"relaxation": 2.0}, r"relaxation must be in \[1, 2\) or \"auto\", got 2.0"),
        ({"relaxation": "fast"}, "relaxation must be"),
        ({"tolerance": -1.0}, "tolerance must be"),
        ({"inverse_temperature": 0.0}, "inverse_temperature must be positive"),
        ({"flow": "in"}, "flow must be outgoing or mean, got 'in'"),
    ],
)
def test_invalid_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        BCRF(**options)


def test_long_sequence():
    n, t = 200_000, 5
    rng = np.random.default_rng(0)
    unary, transitions = rng.normal(size=(n, t)), rng.normal(size=(t, t))
    batch = Potentials(unary, transitions, np.array([n], "int32"))
    gold = rng.integers(0, t, n).astype("int32")
    losses, gradient = BCRF().loss(batch.astype("float32"), gold)
    expected, expected_gradient = BCRF().loss(batch, gold)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient.unary, expected_gradient.unary, atol=5e-6)
