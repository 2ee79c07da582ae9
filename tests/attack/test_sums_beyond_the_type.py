"""Finite scores whose sums are beyond their type: no result of `chain` is NaN."""

import warnings
from functools import partial

import numpy as np
import pytest

from bcrf import chain, kernels
from bcrf.chain import CRF, Potentials, SpanTags
from bcrf.chain.distillation import distillation_loss
from bcrf.chain.expected_entity_ratio import ExpectedEntityRatio
from bcrf.chain.potentials import NotFiniteError
from bcrf.chain.search import nbest_arrays
from bcrf.chain.span_posteriors import stretch_posteriors
from bcrf.chain.unlikelihood import Rejection, unlikelihood_loss

T, LENGTHS = 3, np.array([4, 3, 0, 1], dtype="int32")
N = int(LENGTHS.sum())
GOLD = np.arange(N, dtype="int32") % T
TAGS = SpanTags(*(np.array([tag], dtype="int32") for tag in (1, 2, 2, 1)))
SCALES = {"float32": [1e36, 1e38, 3e38], "float64": [1e300, 1e307, 1.5e308]}


def batches(dtype, scale):
    """Potentials of huge scores, all alike, random, or beside small ones and -inf."""
    rng = np.random.default_rng(0)
    for shape in (T, T), (N, T, T):
        unary, transitions = rng.normal(size=(N, T)), rng.normal(size=shape)
        some, forbidden = rng.random((N, T)) < 0.4, rng.random(shape) < 0.3
        for u, t in (
            (np.full((N, T), scale), transitions),
            (np.full((N, T), -scale), transitions),
            (unary, np.full(shape, scale)),
            (unary, np.full(shape, -scale)),
            (unary * (scale / 4), transitions * (scale / 4)),
            (np.tile([scale, -scale, 1], (N, 1)), transitions),
            (np.where(some, -scale, unary), np.where(forbidden, -np.inf, transitions)),
        ):
            yield Potentials(u.astype(dtype), t.astype(dtype), LENGTHS)


def calls(w):
    """The functions of `chain` that take potentials and return numbers."""
    zero = w.with_scores(np.zeros_like(w.unary), np.zeros_like(w.transitions))
    partly = np.where(np.arange(N) % 3, GOLD, -1).astype("int32")
    allowed = (np.arange(N)[:, None] + np.arange(T)) % 4 > 0
    direction = Potentials(np.ones((N, T)), np.zeros((T, T)), LENGTHS)
    wrong = Rejection(0, np.tile([True, True, False], (4, 1)))
    spans = np.array([0, 1]), np.array([1, 3])
    for inference in CRF(), chain.BCRF(), chain.MeanField(), chain.Unstructured():
        yield from (partial(inference.loss, w, gold) for gold in (GOLD, partly, allowed))
        yield partial(inference.log_partition, w)
        yield partial(inference.marginals, w, True)
        yield partial(inference.decoding_marginals, w)
        yield partial(inference.to_crf, w)
        yield partial(inference.differentiate_marginals, w, direction)
        yield partial(ExpectedEntityRatio(0.1).loss, inference, w, np.arange(T) > 0)
        yield partial(unlikelihood_loss, inference, w, [wrong])
        for student, teacher in ((w, zero), (zero, w)):
            yield lambda i=inference, s=student, t=teacher: distillation_loss(
                i, s, CRF().marginals(t, edges=True)
            )
    for objective in chain.SAPO(3), chain.Perceptron(), chain.MIRA(3):
        yield from (partial(objective.loss, w, gold) for gold in (GOLD, partly))
    yield partial(chain.entropy, w)
    yield from (partial(chain.kl_divergence, *pair) for pair in ((w, w), (w, zero), (zero, w)))
    yield from (partial(f, w) for f in (chain.viterbi, chain.dijkstra))
    yield from (partial(nbest_arrays, w, 3, search, 5) for search in ("astar", "beam"))
    yield partial(kernels.path_scores, *w.arrays, GOLD)
    yield partial(chain.span_posteriors, w, TAGS, *spans, np.array([0, 0]))
    yield partial(chain.span_candidates, w, TAGS, 0.2)
    yield partial(stretch_posteriors, w, 0, *spans)


def leaves(value):
    if isinstance(value, Potentials):
        edges = value.transitions
        yield from (value.unary, edges if edges.ndim == 2 else edges[value.inner_edges])
    elif isinstance(value, tuple):
        for each in value:
            yield from leaves(each)
    elif value is not None:
        yield np.asarray(value)


@pytest.mark.parametrize("dtype, scale", [(d, s) for d, scales in SCALES.items() for s in scales])
def test_no_result_is_nan(dtype, scale):
    n_results = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for w in batches(dtype, scale):
            for call in calls(w):
                try:
                    result = call()
                except ValueError as error:
                    assert "sequence" in str(error) or "transitions have" in str(error)
                    continue
                assert not any(np.isnan(each).any() for each in leaves(result)), call
                n_results += 1
    assert n_results > 100


def test_the_loss_names_the_sequence():
    unary = np.full((7, 3), 1.0, dtype="float32")
    unary[4:] = 2e38
    w = Potentials(unary, np.zeros((3, 3), "float32"), np.array([4, 3], dtype="int32"))
    for inference in CRF(), chain.BCRF():
        with pytest.raises(NotFiniteError, match=r"sequence 1 has .* sums beyond") as caught:
            inference.loss(w, np.full(7, -1, "int32") + np.array([1] + [0] * 5 + [1], "int32"))
        assert caught.value.sequence == 1


def test_a_span_outside_of_the_batch_is_named():
    empty = Potentials(np.zeros((0, 3)), np.zeros((3, 3)), np.zeros(0, dtype="int32"))
    one = np.array([1])
    for call in (
        partial(chain.span_posteriors, empty, TAGS, one - 1, one, one - 1),
        partial(stretch_posteriors, empty, 0, one - 1, one),
    ):
        with pytest.raises(ValueError, match=r"span 0 has the tokens 0:1; expected .* 0 tokens"):
            call()
