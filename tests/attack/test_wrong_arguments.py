"""Wrong arguments of kernels are refused, and odd scores do not crash them."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bcrf import kernels
from bcrf.kernels import BregmanOptions

FOLDER = Path(__file__).parent


def test_wrong_calls_are_refused_without_a_crash():
    command = [sys.executable, FOLDER / "kernel_calls.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 2000


def scores(rng, shape, dtype):
    """Scores of which many are NaN, infinite, or too large for probabilities."""
    found = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 38, shape)
    for value in np.nan, np.inf, -np.inf, -np.inf:
        found[rng.random(shape) < 0.1] = value
    return found.astype(dtype)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_odd_scores_do_not_crash(dtype, shared):
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for tags in 1, 2, 9, 17, 40:
            lengths = np.array([0, 1, 2, 19, 0, 7], dtype="int32")
            n = int(lengths.sum())
            shape = (tags, tags) if shared else (n, tags, tags)
            batch = scores(rng, (n, tags), dtype), scores(rng, shape, dtype), lengths
            gold = rng.integers(-1, tags, n).astype("int32")
            options = BregmanOptions(5, None, 0.1, "lower", 10.0)
            for result in (
                kernels.sum_product(*batch, edges="each").unary,
                kernels.bregman(*batch, options, edges="each").unary,
                kernels.mean_field(*batch, 3).unary,
                kernels.mean_field_loss(*batch, gold, 3).unary,
            ):
                assert result.shape == (n, tags)
            for labelings in (
                kernels.max_product(*batch)[0],
                kernels.nbest(*batch, 50)[0],
                kernels.beam_search(*batch, 20, 40)[0],
                kernels.dijkstra(*batch)[0],
                kernels.sample(*batch, scores(rng, (3, n), "float64")),
            ):
                assert labelings.min(initial=0) >= 0 and labelings.max(initial=0) < tags
            assert kernels.entropy(*batch).shape == (6,)


@pytest.mark.parametrize("scale", [1e3, 1e12, 1e18, 1e30])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_marginals_of_huge_scores_sum_to_one(dtype, shared, scale):
    rng = np.random.default_rng(0)
    lengths = np.array([9, 1, 30], dtype="int32")
    shape = (6, 6) if shared else (40, 6, 6)
    # Small differences between huge scores: many labelings have similar scores.
    unary = scale + rng.integers(4, size=(40, 6)) * scale * 1e-7
    transitions = scale * rng.normal(size=shape).round(1)
    batch = unary.astype(dtype), transitions.astype(dtype), lengths
    inner = np.ones(40, dtype=bool)
    inner[lengths.cumsum() - 1] = False
    options = BregmanOptions(5, 1.0, None)
    for result in (
        kernels.sum_product(*batch, edges="each"),
        kernels.bregman(*batch, options, edges="each"),
    ):
        np.testing.assert_allclose(result.unary.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(result.edges[inner].sum(axis=(1, 2)), 1, atol=1e-6)
    heads, tails = np.divmod(np.arange(36, dtype="int32"), 6)
    node, pairs = kernels.pair_marginals(*batch, heads, tails)
    np.testing.assert_allclose(node.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(pairs[inner].sum(axis=1), 1, atol=1e-6)
    assert (kernels.entropy(*batch) >= 0).all()


def long_batch(n_sequences, n_tokens, n_tags=48):
    rng = np.random.default_rng(0)
    lengths = np.full(n_sequences, n_tokens // n_sequences, dtype="int32")
    unary = rng.normal(size=(int(lengths.sum()), n_tags)).astype("float32")
    return unary, rng.normal(size=(n_tags, n_tags)).astype("float32"), lengths


def bregman(batch):
    kernels.bregman(*batch, BregmanOptions(2000, 1.0, None))


def large_scores(batch):
    """Scores of a large range take the slowest path."""
    unary, transitions, lengths = batch
    bregman((unary * 1e8, transitions * 1e8, lengths))


CALLS = {
    "bregman": (bregman, 20_000),
    "bregman of large scores": (large_scores, 20_000),
    "mean_field": (lambda batch: kernels.mean_field(*batch, 2000), 20_000),
    "nbest": (lambda batch: kernels.nbest(*batch, 3000), 20_000),
    "beam_search": (lambda batch: kernels.beam_search(*batch, 1, 1000), 20_000),
}


class TimeoutOfTest(Exception):
    pass


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="there are no timers")
@pytest.mark.parametrize("n_sequences", [1, 50])
@pytest.mark.parametrize("name", CALLS)
def test_a_signal_ends_a_long_call(name, n_sequences):
    """Such as Ctrl-C, whose handler raises KeyboardInterrupt."""
    import signal

    call, n_tokens = CALLS[name]
    batch = long_batch(n_sequences, n_tokens)

    def handle(*_):
        raise TimeoutOfTest

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        start = time.process_time()
        with pytest.raises(TimeoutOfTest):
            call(batch)
        end = time.process_time()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # The call alone takes 5 seconds of the processor and more.
    assert end - start < 2.5
    # The threads are free for the next call.
    tags = kernels.max_product(*long_batch(50, 5000))[0]
    assert len(tags) == 5000


@pytest.mark.parametrize("dtype, scale", [("float32", 1e26), ("float32", 1e33), ("float64", 1e100)])
def test_the_gradient_of_huge_scores_is_finite(dtype, scale):
    rng = np.random.default_rng(0)
    lengths = np.array([3, 2, 9], dtype="int32")
    for tags in 3, 5, 8:
        unary, transitions = rng.normal(size=(14, tags)), rng.normal(size=(tags, tags))
        batch = (unary * scale).astype(dtype), (transitions * scale).astype(dtype), lengths
        gold = rng.integers(tags, size=14, dtype="int32")
        found = kernels.fused_loss(*batch, gold)
        assert np.isfinite(found.unary).all() and np.isfinite(found.edges).all()
