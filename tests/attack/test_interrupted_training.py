"""A signal ends online training, and leaves a learner that works."""

import signal
import time

import numpy as np
import pytest

from bcrf.linear.learner import OnlineLearner, OnlineSettings
from bcrf.linear.rows import Rows


class InterruptOfTest(Exception):
    pass


def handle(*_):
    raise InterruptOfTest


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_a_signal_ends_a_pass():
    rng = np.random.default_rng(0)
    n, n_tags, n_features = 800_000, 100, 50
    lengths = np.full(n // 20, 20, dtype="int32")
    rows = Rows(
        rng.integers(n_features, size=10 * n).astype("int32"),
        np.arange(0, 10 * n + 1, 10, dtype="int64"),
    )
    gold = rng.integers(n_tags, size=n).astype("int32")
    learner = OnlineLearner(n_tags, n_features, OnlineSettings("crf"), len(lengths))
    before = learner.weights
    handler = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.monotonic()
        with pytest.raises(InterruptOfTest):
            learner.step(rows, lengths, gold)
        # The whole pass takes 1.2 seconds on a Zen 5 core.
        assert time.monotonic() - start < 0.8
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    # The learner keeps its steps.
    assert np.isfinite(learner.weights).all()
    assert (learner.weights != before).any()
    first = Rows(rows.rows[:200], rows.starts[:21])
    learner.step(first, lengths[:1], gold[:20])
    assert np.isfinite(learner.weights).all() and learner.weights.any()
