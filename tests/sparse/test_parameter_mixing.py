"""Tests of iterative parameter mixing."""

from dataclasses import replace

import numpy as np
import pytest
from test_learner import F, T, flatten, learn, make_problem, start_weights

from bcrf.linear.learner import OnlineLearner, OnlineSettings

PARALLEL = [
    OnlineSettings("crf", averaged=False, rate=0.3, l2=1, decay=0.5),
    OnlineSettings("sapo", n=3, rate=0.3),
    OnlineSettings("sapo", n=3, rate=0.3, l1=0.5),
    OnlineSettings("perceptron", rate=0.7),
    OnlineSettings("mira", n=1, averaged=False, rate=0.2),
    OnlineSettings("bcrf", rate=0.3),
]


def rows(features, lengths, gold, which):
    return [features[i] for i in which], lengths[which], [gold[i] for i in which]


@pytest.mark.parametrize("online", PARALLEL, ids=str)
def test_weights_are_the_mean_of_learners_of_one_share_each(online):
    """Each pass starts from the mean of the current weights, not of the averages."""
    features, lengths, gold = make_problem(3, n_sequences=11)
    found = learn(replace(online, threads=2), features, lengths, gold, passes=2)
    shares = np.array_split(np.arange(11), 2)
    sizes = [len(share) / 11 for share in shares]
    plain = replace(online, averaged=False)
    chains = [OnlineLearner(T, F, plain, n_sequences=5.5) for _ in shares]
    averages = [OnlineLearner(T, F, online, n_sequences=5.5) for _ in shares]
    current = np.zeros_like(found.weights)
    current[:, :T] = start_weights()
    means = []
    for _ in range(2):
        for chain, average, share in zip(chains, averages, shares, strict=True):
            x, n, y = rows(features, lengths, gold, share)
            tags = np.concatenate(y).astype("int32")
            for model in (chain, average):
                model.weights = current
                model.step(flatten(x), n, tags)
        current = sum(c.weights * size for c, size in zip(chains, sizes, strict=True))
        means.append(sum(a.weights * size for a, size in zip(averages, sizes, strict=True)))
    expected = np.mean(means, axis=0) if online.averaged else current
    np.testing.assert_allclose(found.weights, expected, atol=1e-5)


def test_weights_are_reproducible_and_depend_on_the_threads():
    problem = make_problem(4, n_sequences=20)
    online = OnlineSettings("sapo", rate=0.3, averaged=False, threads=3)
    first, second = (learn(online, *problem) for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert not np.allclose(first.weights, learn(replace(online, threads=1), *problem).weights)


def test_learns_features_that_are_added_later():
    features, lengths, _ = make_problem(5, n_sequences=30)
    gold = [np.array([max(row, default=0) % T for row in sequence]) for sequence in features]
    chain = OnlineLearner(
        T, F // 2, OnlineSettings("crf", rate=0.5, averaged=False, threads=2), len(lengths)
    )
    few = [[[r for r in row if r < F // 2] for row in sequence] for sequence in features]
    tags = np.concatenate(gold).astype("int32")
    losses = [chain.step(flatten(few), lengths, tags)]
    chain.resize(F)
    losses += [chain.step(flatten(features), lengths, tags) for _ in range(15)]
    assert losses[-1] < 0.7 * losses[0]
    assert np.isfinite(chain.weights).all() and chain.weights[T + 3 + F // 2 :].any()


def test_fewer_sequences_than_threads():
    features, lengths, gold = make_problem(6, n_sequences=1)
    found = learn(
        OnlineSettings("perceptron", rate=0.7, averaged=False, threads=4), features, lengths, gold
    )
    expected = learn(
        OnlineSettings("perceptron", rate=0.7, averaged=False), features, lengths, gold
    )
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)


def test_threads_must_be_positive():
    with pytest.raises(ValueError, match=r"threads must be at least 1 .*got 0"):
        OnlineSettings(threads=0)


def test_adagrad_keeps_its_rates_between_passes():
    """A pass with lower rates changes the weights less."""
    features, lengths, gold = make_problem(7, n_sequences=40)
    tags = np.concatenate(gold).astype("int32")
    online = OnlineSettings("crf", averaged=False, optimizer="adagrad", rate=1, threads=2)
    chain = OnlineLearner(T, F, online, len(lengths))
    zeros = np.zeros_like(chain.weights)
    for _ in range(20):
        chain.step(flatten(features), lengths, tags)
    late = chain.weights
    chain.step(flatten(features), lengths, tags)
    kept = np.abs(chain.weights - late).max()
    # New weights forget the rates.
    chain.weights = late + zeros
    chain.step(flatten(features), lengths, tags)
    assert kept < 0.5 * np.abs(chain.weights - late).max()
