"""CuPy arrays in give CuPy arrays out, with the results of NumPy arrays."""

from functools import partial

import numpy as np
import on_gpu
import pytest

from bcrf.chain import (
    BCRF,
    CRF,
    MIRA,
    SAPO,
    MeanField,
    Perceptron,
    Potentials,
    SpanTags,
    Unstructured,
    entropy,
    kl_divergence,
    minimum_risk,
    nbest,
    sample,
    span_candidates,
    viterbi,
)
from bcrf.chain.expected_entity_ratio import ExpectedEntityRatio
from bcrf.chain.unlikelihood import Rejection, unlikelihood_loss

pytestmark = pytest.mark.gpu
if reason := on_gpu.why_not():
    # This is the one skip for all GPU tests; see `processor` in tests/conftest.py.
    pytest.skip(f"GPU tests do not run: {reason}", allow_module_level=True)

INFERENCES = [CRF(), BCRF(5), BCRF(9, "auto", 1e-3), MeanField(4), Unstructured()]
OBJECTIVES = [*INFERENCES, SAPO(3), SAPO(3, "beam", 8), Perceptron(), MIRA(2)]
TAGS = SpanTags(*(np.array(ids, "int32") for ids in ([1, 3], [2, 4], [2, 4], [1, 3])))


@pytest.fixture(params=[True, False], ids=["shared", "each"])
def batch(request):
    rng = np.random.default_rng(0)
    lengths = np.array([7, 0, 1, 2, 30], "int32")
    shape = (5, 5) if request.param else (40, 5, 5)
    unary, transitions = rng.normal(0, 2, (40, 5)), rng.normal(0, 1, shape)
    transitions[..., 0, 2] = -np.inf
    return Potentials(unary.astype("float32"), transitions.astype("float32"), lengths)


def on(potentials):
    arrays = potentials.unary, potentials.transitions, potentials.lengths
    return Potentials(*map(on_gpu.to_gpu, arrays))


def assert_same(found, expected):
    if isinstance(expected, Potentials):
        assert_same(found.unary, expected.unary)
        assert_same(found.transitions, expected.transitions)
    elif isinstance(expected, tuple | list):
        for x, y in zip(found, expected, strict=True):
            assert_same(x, y)
    elif isinstance(expected, np.ndarray):
        assert type(found).__module__.startswith("cupy") and found.dtype == expected.dtype
        np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-4)
    elif expected is None:
        assert found is None
    else:
        assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("inference", INFERENCES, ids=repr)
def test_inferences(batch, inference):
    for ask in ("log_partition", "decode", "marginals"):
        ask = getattr(inference, ask)
        assert_same(ask(on(batch)), ask(batch))
    # The chains may differ by constants that move from a token to the next.
    found, expected = inference.to_crf(on(batch)), inference.to_crf(batch)
    assert_same(CRF().log_partition(found), CRF().log_partition(expected))
    assert_same(CRF().marginals(found), CRF().marginals(expected))
    assert_same(inference.marginals(on(batch), edges=True), inference.marginals(batch, edges=True))


@pytest.mark.parametrize("shared", [True, False])
def test_a_long_sequence(shared):
    """A GPU cuts it into chunks."""
    rng, n = np.random.default_rng(0), 5000
    unary, transitions = rng.normal(0, 2, (n, 5)), rng.normal(0, 1, (5, 5) if shared else (n, 5, 5))
    lengths = np.array([n], "int32")
    batch = Potentials(unary.astype("float32"), transitions.astype("float32"), lengths)
    for ask in viterbi, CRF().log_partition, CRF().marginals:
        assert_same(ask(on(batch)), ask(batch))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_losses(batch, objective):
    gold = viterbi(Potentials(batch.unary * 0.3, batch.transitions, batch.lengths))[0]
    sets = np.eye(5, dtype=bool)[gold]
    partial_gold = np.where(np.arange(40) % 3, gold, -1).astype("int32")
    golds = [gold, sets, partial_gold]
    for labels in golds[:2] if isinstance(objective, MeanField) else golds:
        found = objective.loss(on(batch), on_gpu.to_gpu(labels))
        assert_same(found, objective.loss(batch, labels))


@pytest.mark.parametrize("inference", [CRF(), BCRF(5)], ids=repr)
def test_a_graph_captures_a_step(batch, inference):
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        potentials, gold = on(batch), on_gpu.to_gpu(viterbi(batch)[0])
        # The first steps compile the kernels and fill the memory pool of the stream.
        for _ in range(2):
            inference.loss(potentials, gold)
        stream.synchronize()
        stream.begin_capture()
        losses, gradient = inference.loss(potentials, gold)
        graph = stream.end_capture()
        unary = potentials.unary
        unary *= 0.5
        graph.launch(stream)
        stream.synchronize()
    expected = inference.loss(batch.with_scores(batch.unary * 0.5, batch.transitions), gold.get())
    assert_same((losses, gradient), expected)


@pytest.mark.parametrize(
    "ask",
    [
        viterbi,
        entropy,
        partial(nbest, n=3),
        partial(nbest, n=3, search="beam"),
        lambda p: sample(p, 2, np.random.default_rng(0)),
        lambda p: kl_divergence(p, p.scale(0.5)),
        lambda p: minimum_risk(p, p.unary),
    ],
)
def test_posterior_queries(batch, ask):
    assert_same(ask(on(batch)), ask(batch))


def test_spans_entity_ratios_and_rejections(batch):
    tags = SpanTags(*map(on_gpu.to_gpu, TAGS))
    assert_same(tuple(span_candidates(on(batch), tags, 0.1)), span_candidates(batch, TAGS, 0.1))
    counted = np.arange(5) > 0
    found = ExpectedEntityRatio(0.2).loss(BCRF(), on(batch), on_gpu.to_gpu(counted))
    assert_same(found, ExpectedEntityRatio(0.2).loss(BCRF(), batch, counted))
    wrong = np.zeros((7, 5), dtype=bool)
    wrong[:, 1] = True
    for inference in INFERENCES:
        found = unlikelihood_loss(inference, on(batch), [Rejection(0, on_gpu.to_gpu(wrong))])
        assert_same(found, unlikelihood_loss(inference, batch, [Rejection(0, wrong)]))


def test_nan_is_named(batch):
    broken = on(batch)
    broken.unary[9] = np.nan
    for ask in (CRF().log_partition, viterbi, MeanField().decode):
        with pytest.raises(ValueError, match="sequence 3 has NaN"):
            ask(broken)
