"""Tests of second-order chains against enumerated labelings."""

from itertools import pairwise as neighbours

import numpy as np
import pytest
from oracles.sparse_learner import Reference
from pairwise import pairwise
from test_learner import T, flatten, make_problem

from bcrf.chain import CRF, Constraints, Potentials
from bcrf.kernels.sparse import correct
from bcrf.linear.learner import LEAST_MARGINAL, MAX_TAGS, OnlineLearner, OnlineSettings

F = 12
PAIRS = np.random.default_rng(0).permutation(F + np.arange((T + 1) * T)).reshape(T + 1, T)
PAIRS = PAIRS.astype("int32")
N_FEATURES = F + PAIRS.size
# Some transitions and last tags are forbidden, and the first tag is free.
ALLOWED = np.ones((T, T), dtype=bool)
ALLOWED[0, 2] = False
CONSTRAINTS = ALLOWED, np.ones(T, dtype=bool), np.array([True, True, False])

SETTINGS = [
    OnlineSettings("crf", 2, rate=0.3, averaged=False),
    OnlineSettings("crf", 2, rate=0.3, l2=2, decay=0.5),
    OnlineSettings("crf", 2, rate=0.3, l1=0.5, decay=0.5),
    OnlineSettings("crf", 2, rate=0.7, optimizer="adagrad", l1=0.5, l2=2),
]


def make_weights(seed, scale):
    """Make random weights. A large scale makes many marginals small."""
    return np.random.default_rng(seed).normal(0, scale, (T + 3 + N_FEATURES, T))


def make_learner(online, weights, n_sequences=1):
    model = OnlineLearner(T, N_FEATURES, online, n_sequences)
    model.set_pairs(PAIRS)
    padded = np.zeros_like(model.weights)
    padded[:, :T] = weights
    model.weights = padded
    return model


def make_reference(online, weights, constraints=None, n_sequences=1):
    reference = Reference(
        T, N_FEATURES, online, n_sequences, constraints, PAIRS, least=LEAST_MARGINAL
    )
    reference.w = weights.astype("float64")
    return reference


@pytest.mark.parametrize(
    "online, unknown, constrained, scale, seed",
    pairwise(SETTINGS, [0.0, 0.4], [False, True], [0.1, 1.5], range(3)),
)
def test_steps_equal_the_reference(online, unknown, constrained, scale, seed):
    features, lengths, gold = make_problem(seed, n_sequences=6, longest=4, unknown=unknown)
    if constrained:
        for tags in gold:
            tags[tags == 2] = 1
    constraints = CONSTRAINTS if constrained else None
    weights = make_weights(seed, scale)
    reference = make_reference(online, weights, constraints, len(lengths))
    model = make_learner(online, weights, len(lengths))
    model.constrain(constraints and Constraints(*constraints))
    for _ in range(2):
        for x, y in zip(features, gold, strict=True):
            reference.step(x, y)
        model.step(flatten(features), lengths, np.concatenate(gold).astype("int32"))
    np.testing.assert_allclose(model.weights[:, :T], reference.weights, atol=5e-4)
    assert np.abs(model.weights[T + 3 + F :, :T] - weights[T + 3 + F :]).max() > 0.1


def test_the_loss_is_that_of_the_kept_labelings():
    features, lengths, gold = make_problem(4, n_sequences=1)
    online = SETTINGS[0]
    weights = make_weights(4, 1.5)
    reference = make_reference(online, weights)
    potentials = reference.potentials(features[0], None)
    allowed = gold[0][:, None] == np.arange(T)
    keep = reference.mean_counts(reference.labelings(potentials))[0] >= LEAST_MARGINAL
    scores = [
        np.logaddexp.reduce([score for score, _ in reference.second_order(potentials, kept)])
        for kept in (keep | allowed, allowed)
    ]
    loss = make_learner(online, weights).step(flatten(features), lengths, gold[0].astype("int32"))
    assert not keep.all()
    assert loss == pytest.approx(scores[0] - scores[1], rel=1e-5)


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.5, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_potentials_have_the_pair_marginals_of_the_second_order_chain(constrained, scale, seed):
    features, _, _ = make_problem(seed, n_sequences=1, longest=6)
    constraints = CONSTRAINTS if constrained else None
    weights = make_weights(seed, scale)
    reference = make_reference(SETTINGS[0], weights, constraints)
    first = reference.potentials(features[0], None)
    model = make_learner(SETTINGS[0], weights)
    found = model.add_pairs(
        Potentials(
            first.unary.astype("float32"), first.transitions.astype("float32"), first.lengths
        )
    ).astype("float64")
    if len(first.unary) == 1:
        np.testing.assert_allclose(found.unary, first.unary, rtol=1e-6)
        return
    kept = reference.kept(reference.labelings(first))
    labelings = reference.second_order(first, kept)
    p = np.exp([score for score, _ in labelings])
    edges = np.zeros((len(first.unary), T, T))
    for weight, (_, tags) in zip(p / p.sum(), labelings, strict=True):
        for i, pair in enumerate(neighbours(tags)):
            edges[(i, *pair)] += weight
    restricted = found.restrict(kept)
    np.testing.assert_allclose(CRF().marginals(restricted, edges=True).edges, edges, atol=1e-5)
    # The odds of kept and other labelings stay.
    expected = CRF().log_partition(first.restrict(kept))
    np.testing.assert_allclose(CRF().log_partition(restricted), expected, rtol=1e-5)
    is_pair = kept[:-1, :, None] & kept[1:, None, :]
    unchanged = np.broadcast_to(first.transitions, found.transitions.shape)[:-1]
    np.testing.assert_allclose(found.transitions[:-1][~is_pair], unchanged[~is_pair], rtol=1e-6)
    np.testing.assert_allclose(found.unary[1:], first.unary[1:], rtol=1e-6)


def test_a_batch_has_the_potentials_of_its_sequences():
    rng = np.random.default_rng(0)
    lengths = np.array([3, 0, 1, 4], dtype="int32")
    unary = rng.normal(size=(8, T)).astype("float32")
    # The last sequence has no allowed labeling.
    unary[5] = -np.inf
    batch = Potentials(unary, rng.normal(size=(T, T)).astype("float32"), lengths)
    model = make_learner(SETTINGS[0], make_weights(0, 1.0))
    whole = model.add_pairs(batch)
    parts = Potentials.join([model.add_pairs(batch.take([k])) for k in range(4)])
    np.testing.assert_array_equal(whole.unary, parts.unary)
    np.testing.assert_array_equal(whole.transitions, parts.transitions)
    assert (whole.transitions[0] != batch.transitions).any()
    np.testing.assert_array_equal(whole.unary[4:], unary[4:])


def test_wrong_settings_and_pairs_are_refused():
    with pytest.raises(ValueError, match="order must be 1 or 2, got 3"):
        OnlineSettings("crf", 3)
    with pytest.raises(ValueError, match="order = 2 needs the objective crf, got 'sapo'"):
        OnlineSettings("sapo", 2)
    with pytest.raises(ValueError, match=rf"at most {MAX_TAGS} tags, got {MAX_TAGS + 1}"):
        OnlineLearner(MAX_TAGS + 1, 0, SETTINGS[0])
    with pytest.raises(ValueError, match="need order = 2"):
        OnlineLearner(T, N_FEATURES, OnlineSettings("crf")).set_pairs(PAIRS)
    model = OnlineLearner(T, N_FEATURES, SETTINGS[0])
    with pytest.raises(ValueError, match=r"pairs must be \(4, 3\), got shape \(3, 3\)"):
        model.set_pairs(PAIRS[:-1])
    with pytest.raises(ValueError, match=f"pairs must be from 0 to {N_FEATURES - 1}"):
        model.set_pairs(PAIRS + 1)
    with pytest.raises(ValueError, match="order = 2 needs online steps"):
        model.check_descends()


def test_the_kernel_refuses_arrays_that_do_not_fit():
    weights = np.zeros((T + 3 + N_FEATURES, 8), dtype="float32")
    unary = np.zeros((2, T), dtype="float32")
    good = {
        "weights": weights,
        "pairs": PAIRS,
        "unary": unary,
        "transitions": np.zeros((T, T), dtype="float32"),
        "lengths": np.array([2], dtype="int32"),
        "marginals": unary + np.float32(1 / T),
        "best": np.zeros(2, dtype="int32"),
        "least": 0.01,
    }
    correct(**good)
    for name, bad in {
        "weights": weights[:-1],
        "pairs": PAIRS.T.copy(),
        "transitions": unary,
        "lengths": np.array([3], dtype="int32"),
        "marginals": unary[:1],
        "best": np.full(2, T, dtype="int32"),
    }.items():
        with pytest.raises(ValueError, match=r"must be|do not fit|lengths sum"):
            correct(**{**good, name: bad})
    with pytest.raises(ValueError, match="do not fit"):
        correct(**{**good, "weights": weights[:3]})
    with pytest.raises(ValueError, match=r"best must be \(2,\)"):
        correct(**{**good, "best": np.zeros(1, dtype="int32")})
