"""Tests of the online learner against plain NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.sparse_learner import Reference
from pairwise import pairwise

from bcrf.chain import CRF, Constraints, Potentials, viterbi
from bcrf.kernels.sparse import Learner, shuffled
from bcrf.linear.learner import DivergedError, OnlineLearner, OnlineSettings
from bcrf.linear.rows import Rows

T, F = 3, 12


def make_problem(seed, n_sequences=12, longest=5, unknown=0.0):
    """Make random features of each token and random tags of each sequence."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n_sequences).astype("int32")
    features = [
        [rng.integers(0, F, rng.integers(0, 5)).tolist() for _ in range(n)] for n in lengths
    ]
    gold = [rng.integers(0, T, n) for n in lengths]
    for tags in gold:
        tags[rng.random(len(tags)) < unknown] = -1
    return features, lengths, gold


def flatten(features):
    tokens = [rows for sequence in features for rows in sequence]
    starts = np.cumsum([0, *map(len, tokens)]).astype("int64")
    return Rows(np.array([row for rows in tokens for row in rows], dtype="int32"), starts)


def start_weights(seed=0):
    """Make random weights, so that no two labelings have the same score."""
    return np.random.default_rng(seed).normal(0, 0.1, (T + 3 + F, T))


def learn(online, features, lengths, gold, passes=2, constraints=None, lattice=None):
    model = OnlineLearner(T, F, online, len(lengths))
    weights = np.zeros_like(model.weights)
    weights[:, :T] = start_weights()
    model.weights = weights
    model.constrain(constraints and Constraints(*constraints))
    tags = np.concatenate(gold).astype("int32")
    for _ in range(passes):
        model.step(flatten(features), lengths, tags, lattice)
    return model


OBJECTIVES = [
    OnlineSettings("crf", rate=0.3, averaged=False),
    OnlineSettings("crf", rate=0.3, l2=2, decay=0.5, averaged=True),
    OnlineSettings("sapo", n=1, rate=0.3, averaged=False),
    OnlineSettings("sapo", n=3, rate=0.3, l2=1, averaged=True),
    OnlineSettings("sapo", n=5, rate=0.3, l2=1, search="beam", beam_width=1000, averaged=False),
    OnlineSettings("sapo", n=1000, rate=0.3, averaged=False),
    # Weights of 0 make ties, but not at the end of a list of all labelings.
    OnlineSettings("sapo", n=1000, rate=0.3, l1=0.5, averaged=False),
    OnlineSettings("crf", rate=0.3, l1=0.5, decay=0.5, averaged=True),
    OnlineSettings("crf", rate=0.3, l1=0.5, l2=2, decay=0.5, averaged=True),
    OnlineSettings("perceptron", rate=0.7, averaged=False),
    OnlineSettings("perceptron", rate=0.7, averaged=True),
    OnlineSettings("perceptron", rate=0.7, l2=3, decay=1, averaged=True),
    OnlineSettings("mira", n=1, rate=0.2, averaged=False),
    OnlineSettings("mira", n=1, rate=10, averaged=True),
    OnlineSettings("bcrf", n_iter=4, rate=0.3, averaged=False),
    OnlineSettings("bcrf", n_iter=10, rate=0.3, l2=2, decay=0.5, averaged=True),
    OnlineSettings("crf", optimizer="adagrad", rate=0.7, averaged=False),
    OnlineSettings("crf", optimizer="adagrad", rate=0.7, l1=0.5, l2=2, decay=0.5, averaged=True),
    OnlineSettings("sapo", optimizer="adagrad", n=3, rate=0.7, averaged=True),
]


@pytest.mark.parametrize(
    "online, unknown, constrained, seed", pairwise(OBJECTIVES, [0.0, 0.3], [False, True], range(3))
)
def test_weights_equal_the_reference(online, unknown, constrained, seed):
    features, lengths, gold = make_problem(seed, unknown=unknown)
    constraints = lattice = None
    if constrained:
        allowed = np.ones((T, T), dtype=bool)
        allowed[0, 2] = False
        constraints = allowed, np.ones(T, dtype=bool), np.array([True, True, False])
        rng = np.random.default_rng(seed + 100)
        lattice = rng.random((lengths.sum(), T)) < 0.7
        # The lattice allows the gold labeling. A forbidden one has a test of its own below.
        for tags in gold:
            tags[tags == 2] = 1
            tags[-1] = max(tags[-1], 0)
        flat = np.concatenate(gold)
        lattice[flat >= 0, flat[flat >= 0]] = True
        lattice[:, 1] = True
    reference = Reference(T, F, online, len(lengths), constraints)
    reference.w = start_weights()
    ends = lengths.cumsum()
    for _ in range(2):
        for x, y, end in zip(features, gold, ends, strict=True):
            reference.step(x, y, None if lattice is None else lattice[end - len(y) : end])
    model = learn(online, features, lengths, gold, 2, constraints, lattice)
    np.testing.assert_allclose(model.weights[:, :T], reference.weights, atol=2e-4)
    assert not model.weights[:, T:].any()
    if online.l1:
        np.testing.assert_array_equal(model.weights[:, :T] == 0, reference.weights == 0)


def test_with_all_labelings_sapo_is_crf():
    problem = make_problem(0)
    sapo = learn(OnlineSettings("sapo", n=3**5, rate=0.2, l2=1), *problem)
    crf = learn(OnlineSettings("crf", rate=0.2, l2=1), *problem)
    np.testing.assert_allclose(sapo.weights, crf.weights, atol=1e-5)


def test_nbest_mira_separates_by_the_number_of_wrong_tags():
    features, lengths, gold = make_problem(1, n_sequences=1, longest=3)
    model = OnlineLearner(T, F, OnlineSettings("mira", n=T**3, averaged=False, rate=1e6))
    model.step(flatten(features), lengths, gold[0].astype("int32"))
    reference = Reference(T, F, model.settings, 1)
    reference.w = model.weights[:, :T].astype("float64")
    potentials = reference.potentials(features[0], None)
    scored = {y: s for s, y in reference.labelings(potentials)}
    best = scored[tuple(gold[0])]
    for tags, score in scored.items():
        assert best - score >= (np.array(tags) != gold[0]).sum() - 1e-3


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_rescaling_does_not_change_the_weights(l1):
    # Every few steps, the learner multiplies the scale into the weights.
    online = OnlineSettings("crf", rate=0.01, l2=900, l1=l1)
    features, lengths, gold = make_problem(3)
    reference = Reference(T, F, online, len(lengths))
    reference.w = start_weights()
    for _ in range(8):
        for x, y in zip(features, gold, strict=True):
            reference.step(x, y)
    model = learn(online, features, lengths, gold, 8)
    np.testing.assert_allclose(model.weights[:, :T], reference.weights, atol=1e-5)


def test_l1_makes_weights_exactly_zero():
    features, lengths, gold = make_problem(3, n_sequences=60)
    tags = np.concatenate(gold).astype("int32")
    n_zero, losses = [], []
    for l1 in (0.0, 1.0, 4.0, 59.0):
        model = OnlineLearner(T, F, OnlineSettings("sapo", averaged=False, l1=l1))
        model.fit(flatten(features), lengths, tags, 10, lambda n, loss: losses.append(loss))
        n_zero.append(int((model.weights[:, :T] == 0).sum()))
    assert n_zero[0] < n_zero[1] < n_zero[2] < n_zero[3] == T * (T + 3 + F)


def test_l1_removes_small_weights_after_many_steps():
    """A payment is then much larger than a weight, and its float may not change by the weight."""
    features, lengths, gold = make_problem(3, n_sequences=40)
    online = OnlineSettings("crf", rate=0.1, l1=2.0, averaged=True)
    reference = Reference(T, F, online, len(lengths))
    n_passes = 40
    for _ in range(n_passes):
        for x, y in zip(features, gold, strict=True):
            reference.step(x, y)
    for averaged, expected in (False, reference.w), (True, reference.weights):
        model = OnlineLearner(T, F, replace(online, averaged=averaged), len(lengths))
        for _ in range(n_passes):
            model.step(flatten(features), lengths, np.concatenate(gold).astype("int32"))
        zero = model.weights[:, :T] == 0
        assert 0.1 < zero.mean() < 0.9
        np.testing.assert_array_equal(zero, expected == 0)
        np.testing.assert_allclose(model.weights[:, :T], expected, atol=2e-4)


def test_averaging_with_l1_counts_each_penalty_from_the_step_when_it_was_due():
    """A feature of the first sequence alone pays for the many steps without it."""
    n = 200
    gold = [np.array([i % T]) for i in range(n)]
    features = [[[0]]] + [[[1 + i % (F - 1)]] for i in range(1, n)]
    online = OnlineSettings("crf", rate=0.5, l1=0.5, decay=1, averaged=True)
    reference = Reference(T, F, online, n)
    for x, y in zip(features, gold, strict=True):
        reference.step(x, y)
    model = OnlineLearner(T, F, online, n)
    model.step(flatten(features), np.ones(n, "int32"), np.concatenate(gold).astype("int32"))
    assert 0 < abs(reference.w[T + 3, 0]) < 0.8 * abs(reference.weights[T + 3, 0])
    np.testing.assert_allclose(model.weights[:, :T], reference.weights, atol=1e-6)


def test_averaging_with_l1_over_more_steps_than_the_learner_remembers():
    n, rate, l1 = 70_000, 0.5, 0.3
    online = OnlineSettings("crf", rate=rate, l1=l1, averaged=True)
    model = OnlineLearner(2, 2, online, n)
    rows = Rows(np.array([0] + [1] * (n - 1), "int32"), np.arange(n + 1))
    model.step(rows, np.ones(n, "int32"), (np.arange(n) % 2).astype("int32"))
    # Feature 0 learns in the first step alone, and then pays rate * l1 / n a step.
    mean = rate / 2 - rate * l1 / n * (n + 1) / 2
    np.testing.assert_allclose(model.weights[5, :2], [mean, -mean], rtol=1e-4)


def test_payments_of_many_steps_do_not_depend_on_resizing():
    """The penalties of 65,536 steps are remembered. Resizing to fewer rows keeps all rows."""
    rng = np.random.default_rng(0)
    n, weights = 500, []
    features = rng.integers(0, 10, (n, 3)).astype("int32")
    gold = rng.integers(0, T, n).astype("int32")
    rows = Rows(features.ravel(), np.arange(0, 3 * n + 1, 3))
    for resizes in False, True:
        online = OnlineSettings("crf", rate=0.3, l1=0.2, averaged=True)
        learner = OnlineLearner(T, 12, online, 1000)
        if resizes:
            learner.resize(0)
        for _ in range(132):
            learner.step(rows, np.ones(n, "int32"), gold)
        weights.append(learner.weights)
    np.testing.assert_allclose(*weights, atol=1e-5)


def test_unknown_gold_regularizes_nothing():
    features, lengths, gold = make_problem(4, n_sequences=5)
    n = lengths.sum()
    rows, tags = flatten(features), np.concatenate(gold).astype("int32")
    lattice = np.random.default_rng(0).random((n, T)) < 0.7
    lattice[np.arange(n), tags] = True
    allowed = np.ones((T, T), dtype=bool), np.array([True, True, False]), np.ones(T, dtype=bool)
    # Unknown gold by id, all tags, and all tags that the constraints allow.
    unknown = np.full(n, -1, "int32"), np.ones((n, T), dtype=bool), lattice
    for online in OBJECTIVES:
        online = replace(online, rate=min(online.rate, 1), l2=1, l1=0.1, decay=1)
        models = [OnlineLearner(T, F, online, len(lengths)) for _ in range(2)]
        for model in models:
            model.constrain(Constraints(*allowed))
            model.step(rows, lengths, tags, lattice)
        for missing in unknown:
            assert models[0].step(rows, lengths, missing, lattice) == 0
        for model in models:
            model.step(rows, lengths, tags, lattice)
        np.testing.assert_array_equal(*(model.weights for model in models))
        assert models[0].weights.any()


def test_forbidden_or_unknown_gold_changes_no_weights():
    features, lengths, _ = make_problem(4)
    n = lengths.sum()
    for online in OBJECTIVES[:1] + OBJECTIVES[3:4] + OBJECTIVES[6:7] + OBJECTIVES[9:10]:
        model = OnlineLearner(T, F, online, len(lengths))
        model.step(flatten(features), lengths, np.full(n, -1, dtype="int32"))
        lattice = np.ones((n, T), dtype=bool)
        lattice[:, 0] = False
        model.step(flatten(features), lengths, np.zeros(n, dtype="int32"), lattice)
        model.step(flatten(features), lengths, np.zeros((n, T), dtype=bool))
        assert not model.weights.any()


def test_masks_are_equivalent_to_ids():
    features, lengths, gold = make_problem(5, unknown=0.4)
    tags = np.concatenate(gold).astype("int32")
    mask = (tags[:, None] == np.arange(T)) | (tags[:, None] < 0)
    for online in OBJECTIVES:
        a = OnlineLearner(T, F, online, len(lengths))
        b = OnlineLearner(T, F, online, len(lengths))
        a.step(flatten(features), lengths, tags)
        b.step(flatten(features), lengths, mask)
        np.testing.assert_allclose(a.weights, b.weights, atol=1e-6)


def test_same_seed_same_weights():
    features, lengths, gold = make_problem(6)
    tags = np.concatenate(gold).astype("int32")
    weights = []
    for seed in (1, 1, 2):
        model = OnlineLearner(T, F, OnlineSettings("sapo", seed=seed))
        model.fit(flatten(features), lengths, tags, 3)
        weights.append(model.weights)
    assert (weights[0] == weights[1]).all()
    assert (weights[0] != weights[2]).any()


@given(st.integers(0, 200), st.integers(0, 2**64 - 1))
def test_shuffled_is_a_permutation(n, seed):
    assert sorted(shuffled(n, seed).tolist()) == list(range(n))


@pytest.mark.parametrize("objective", ["crf", "sapo"])
def test_diverging_goes_back_to_the_last_good_weights(objective):
    features, lengths, gold = make_problem(7, n_sequences=40)
    tags = np.concatenate(gold).astype("int32")
    online = OnlineSettings(objective, averaged=False, rate=1e12)
    model = OnlineLearner(T, F, online, len(lengths))
    good = np.zeros_like(model.weights)
    good[:, :T] = start_weights()
    model.weights = good
    # Features that were added later have zero weights again.
    model.resize(2 * F)
    more = Rows(flatten(features).rows + F, flatten(features).starts)
    with pytest.raises(DivergedError, match=r"rate = 1000000000000.0 is too high"):
        for _ in range(1000):
            model.step(more, lengths, tags)
    np.testing.assert_array_equal(model.weights[: len(good)], good)
    assert len(model.weights) == len(good) + F
    assert not model.weights[len(good) :].any()
    assert len(viterbi(model.potentials(more, lengths))[0]) == len(tags)


@pytest.mark.parametrize("row", [-2, F])
def test_a_feature_without_weights_is_named(row):
    model = OnlineLearner(T, F, OnlineSettings())
    rows = Rows(np.array([0, row], dtype="int32"), np.array([0, 2]))
    lengths = np.array([1], dtype="int32")
    with pytest.raises(IndexError, match=f"feature {row} is not among the {F} that have weights"):
        model.potentials(rows, lengths)
    with pytest.raises(IndexError, match=f"feature {row} is not among the {F} that have weights"):
        model.step(rows, lengths, np.array([0], dtype="int32"))
    with pytest.raises(IndexError, match="starts end at 2, but there are 1 rows"):
        model.potentials(Rows(rows.rows[:1], rows.starts), lengths)


def test_l2_that_removes_all_weights_is_refused():
    features, lengths, gold = make_problem(8)
    limit = len(lengths)
    tags = np.concatenate(gold).astype("int32")
    model = OnlineLearner(T, F, OnlineSettings("crf", rate=1, l2=limit * 1.01), len(lengths))
    with pytest.raises(ValueError, match=rf"l2 must be less than .* = {limit:g}, got") as error:
        model.step(flatten(features), lengths, tags)
    assert not isinstance(error.value, DivergedError)
    # `fit` counts the sequences.
    OnlineLearner(T, F, OnlineSettings("crf", rate=1, l2=limit * 0.9)).fit(
        flatten(features), lengths, tags, 1
    )


@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_learns_separable_data(seed):
    # The tag is a feature, so every objective learns to make no error.
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, 8).astype("int32")
    tags = rng.integers(0, T, lengths.sum()).astype("int32")
    rows = Rows(tags, np.arange(len(tags) + 1, dtype="int64"))
    for online in OBJECTIVES:
        # With a single labeling, a tie between two labelings ends the learning.
        ends_early = online.n == 1 or online.objective == "perceptron"
        if online.l2 or online.l1 or online.averaged or ends_early or not len(tags):
            continue
        model = OnlineLearner(T, F, online)
        model.fit(rows, lengths, tags, 100)
        assert (viterbi(model.potentials(rows, lengths))[0] == tags).all(), online


@pytest.mark.parametrize(
    "bad",
    [
        {"rate": 0},
        {"rate": float("inf")},
        {"n": 0},
        {"l2": -1},
        {"l2": float("inf")},
        {"l1": -1},
        {"l1": "0.5"},
        {"rate": "fast"},
        {"decay": float("nan")},
        {"objective": "svm"},
        {"search": "greedy"},
        {"n_iter": 0},
        {"optimizer": "adam"},
        {"objective": "mira", "optimizer": "adagrad"},
        {"beam_width": 0},
        {"beam_width": 4, "n": 5, "search": "beam"},
    ],
)
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        OnlineSettings(**bad)


@pytest.mark.parametrize("online", [(0.3, 0.0, False), (0.3, 2.0, False), (0.2, 0.5, True)])
def test_gradient_steps_equal_adagrad_in_numpy(online):
    rate, l2, averaged = online
    options = OnlineSettings("crf", optimizer="adagrad", rate=rate, l2=l2, averaged=averaged)
    features, lengths, _ = make_problem(1)
    rows, rng = flatten(features), np.random.default_rng(2)
    model = OnlineLearner(T, F, options, len(lengths))
    weights = np.zeros((T + 3 + F, T))
    squares, total, steps = np.zeros_like(weights), np.zeros_like(weights), 0
    for _ in range(2):
        start = model.current_potentials(rows, lengths)
        d_unary = rng.normal(size=start.unary.shape).astype("float32")
        d_unary[: lengths[0]] = 0  # a sequence without annotation
        d_transitions = rng.normal(size=(T, T)).astype("float32")
        model.descend(rows, lengths, start.with_scores(d_unary, d_transitions))

        def step(row, gradient, weights=weights):
            squares[row] += gradient**2
            weights[row] -= rate * gradient / np.sqrt(1 + squares[row])

        for tag in range(T):
            step(tag, d_transitions[tag])
        token = 0
        for sequence in features:
            for i, own in enumerate(sequence):
                general = [0] + [1] * (i == 0) + [2] * (i == len(sequence) - 1)
                for row in [T + k for k in general] + [T + 3 + row for row in own]:
                    step(row, d_unary[token])
                token += 1
            if d_unary[token - len(sequence) : token].any():
                weights *= 1 - rate * l2 / len(lengths)
                steps += 1
                total += weights
        current = model.current_potentials(rows, lengths)
        np.testing.assert_allclose(current.transitions, weights[:T], rtol=1e-4, atol=1e-5)
    expected = total / steps if averaged else weights
    np.testing.assert_allclose(model.weights[:, :T], expected, rtol=1e-4, atol=1e-5)
    assert steps == 2 * (len(lengths) - 1)


def test_gradient_steps_check_their_arrays():
    features, lengths, _ = make_problem(1)
    rows, starts = flatten(features)
    options = {"n": 1, "beam": 0, "averaged": False, "rate": 0.1, "decay": 0, "l2": 0, "l1": 0}
    options |= {"n_iter": 10, "relaxation": 1.25, "adagrad": True}
    learner = Learner("crf", T, n_sequences=1, **options)
    learner.resize(F)
    unary, square = learner.score(rows, starts, lengths)
    learner.descend(rows, starts, lengths, unary, square)
    for wrong, name in ((unary[1:], square), "d_unary"), ((unary, square[:2]), "d_transitions"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            learner.descend(rows, starts, lengths, *wrong)
    with pytest.raises(ValueError, match="lengths sum to"):
        learner.descend(rows, starts, lengths[1:], unary, square)
    for call in (learner.score, lambda *args: learner.descend(*args, unary, square)):
        with pytest.raises(IndexError, match=f"not among the {F}"):
            call(rows + np.int32(F), starts, lengths)


@pytest.mark.parametrize("averaged", [False, True])
def test_mean_field_equals_the_reference(averaged):
    features, lengths, gold = make_problem(9)
    online = OnlineSettings("mean_field", n_iter=3, rate=0.3, averaged=averaged)
    # Gold does not use the forbidden transition.
    gold = [np.minimum(tags, 1) for tags in gold]
    allowed = np.ones((T, T), dtype=bool)
    allowed[0, 2] = False
    constraints = allowed, np.ones(T, dtype=bool), np.ones(T, dtype=bool)
    reference = Reference(T, F, online, len(lengths), constraints)
    reference.w = start_weights()
    for x, y in zip(features, gold, strict=True):
        reference.step(x, y)
    model = learn(online, features, lengths, gold, 1, constraints)
    np.testing.assert_allclose(model.weights[:, :T], reference.weights, atol=2e-4)


def test_mean_field_refuses_partial_gold():
    model = OnlineLearner(T, F, OnlineSettings("mean_field"))
    features, lengths, gold = make_problem(2, n_sequences=4)
    tags = np.concatenate(gold).astype("int32")
    mask = tags[:, None] == np.arange(T)
    model.step(flatten(features), lengths, mask)
    assert model.weights.any()
    mask[lengths[0], :2] = True
    mask[lengths[0], 2] = False
    with pytest.raises(ValueError, match="has partial gold, and mean field cannot"):
        model.step(flatten(features), lengths, mask)


def test_the_losses_of_bregman_chains_are_never_negative():
    features, lengths, gold = make_problem(10, unknown=0.5)
    tags = np.concatenate(gold).astype("int32")
    model = OnlineLearner(T, F, OnlineSettings("bcrf", n_iter=1, rate=2.0))
    for _ in range(5):
        for i, stop in enumerate(lengths.cumsum()):
            one = flatten(features[i : i + 1])
            assert model.step(one, lengths[i : i + 1], tags[stop - lengths[i] : stop]) > -1e-6


def test_certain_tokens_take_no_step():
    """Only the gradients of uncertain tokens reach the weights."""
    model = OnlineLearner(2, 2, OnlineSettings("crf", averaged=False, rate=1))
    weights = np.zeros_like(model.weights)
    weights[5, :2] = 20, -20
    model.weights = weights
    rows = Rows(np.array([0, 1], "int32"), np.arange(3))
    assert model.step(rows, np.array([2], "int32"), np.array([0, 0], "int32")) > 0.5
    assert (model.weights[5] == weights[5]).all()
    assert model.weights[6].any()


def test_adagrad_lowers_the_rate_of_frequent_features():
    rows = Rows(np.array([0] * 50 + [0, 1], "int32"), np.r_[np.arange(51), 52])
    gold = np.r_[np.arange(50) % 2, 0].astype("int32")
    changes = []
    for optimizer in ("sgd", "adagrad"):
        model = OnlineLearner(2, 2, OnlineSettings("crf", optimizer=optimizer, averaged=False))
        # Feature 0 is in every sequence, feature 1 in the last one alone.
        model.step(Rows(rows.rows[:50], rows.starts[:51]), np.ones(50, "int32"), gold[:50])
        before = model.weights[5:7, 0].copy()
        model.step(Rows(rows.rows[50:], np.array([0, 2])), np.ones(1, "int32"), gold[50:])
        changes.append(model.weights[5:7, 0] - before)
    assert changes[0][0] == pytest.approx(changes[0][1], rel=1e-3)
    assert changes[1][0] < 0.5 * changes[1][1]


@pytest.mark.parametrize("way", ["step", "descend"])
def test_the_first_step_of_a_loaded_chain_changes_its_weights(way):
    """Weights that are made at their first use are not those after the step that uses them."""
    rows = Rows(np.array([0, 1], "int32"), np.array([0, 1, 2]))
    lengths, gold = np.array([2], "int32"), np.array([0, 1], "int32")
    learner = OnlineLearner(2, 2, OnlineSettings("crf", rate=1.0, averaged=False))
    zeros = np.zeros_like(learner.weights)
    learner = OnlineLearner(2, 2, OnlineSettings("crf", rate=1.0, averaged=False))
    learner.set_later(lambda: zeros)
    if way == "step":
        learner.step(rows, lengths, gold)
    else:
        potentials = Potentials(np.zeros((2, 2), "f"), np.zeros((2, 2), "f"), lengths)
        learner.descend(rows, lengths, CRF().loss(potentials, gold)[1])
    assert learner.weights.any()
