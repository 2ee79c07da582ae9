"""The ONNX model of a CRF against the CRF, in onnxruntime."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

from bcrf.chain import Constraints  # noqa: E402
from bcrf.torch import CRF  # noqa: E402
from bcrf.torch.onnx import to_onnx  # noqa: E402


def compare(crf, n_cases, random):
    """Compare sequences of random lengths in batches of 20."""
    session = onnxruntime.InferenceSession(to_onnx(crf).SerializeToString())
    for _ in range(n_cases // 20):
        lengths = random.integers(1, 1 + random.integers(1, 15), 20)
        mask = np.arange(lengths.max())[:, None] < lengths
        emissions = random.normal(scale=3, size=(*mask.shape, crf.num_tags)).astype("float32")
        if crf.batch_first:
            mask, emissions = mask.T, emissions.transpose(1, 0, 2)
        mask, emissions = np.ascontiguousarray(mask), np.ascontiguousarray(emissions)
        tags, marginals = session.run(None, {"emissions": emissions, "mask": mask})
        arrays = torch.from_numpy(emissions), torch.from_numpy(mask)
        found = tags if crf.batch_first else tags.T
        for row, expected in zip(found.tolist(), crf.decode(*arrays), strict=True):
            assert row == expected + [-100] * (len(row) - len(expected))
        expected = crf.marginals(*arrays).detach().numpy()
        assert np.abs(marginals - expected).max() < 1e-5


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("n_tags", [1, 2, 9])
def test_labelings_and_marginals_are_equal(n_tags, batch_first):
    random = np.random.default_rng(n_tags)
    for _ in range(3):
        crf = CRF(n_tags, batch_first)
        for parameter in crf.parameters():
            torch.nn.init.normal_(parameter, std=2)
        compare(crf, 200, random)


def test_constraints_hold():
    random = np.random.default_rng(0)
    may = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], bool)
    constraints = Constraints(may, np.array([True, True, False]), np.ones(3, bool))
    compare(CRF(3, constraints=constraints), 200, random)


OPSETS = [13, 17, 19]


@pytest.mark.parametrize("opset", OPSETS)
def test_the_model_has_standard_operators_alone(opset):
    model = to_onnx(CRF(4), opset)
    (found,) = model.opset_import
    assert (found.domain, found.version) == ("", opset)
    assert {node.domain for node in model.graph.node} == {""}


def test_an_older_opset_is_an_error():
    with pytest.raises(ValueError, match="opset must be at least 13, got 12"):
        to_onnx(CRF(4), 12)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    "n", [2000, pytest.param(20_000, marks=pytest.mark.slow, id="20,000 tokens")]
)
def test_long_texts_keep_their_digits(n, opset):
    torch.manual_seed(0)
    crf = CRF(9, batch_first=True)
    session = onnxruntime.InferenceSession(to_onnx(crf, opset).SerializeToString())
    emissions, mask = 5 * torch.randn(1, n, 9), torch.ones(1, n, dtype=torch.bool)
    tags, marginals = session.run(None, {"emissions": emissions.numpy(), "mask": mask.numpy()})
    assert tags.tolist() == crf.decode(emissions, mask)
    exact = crf.double().marginals(emissions.double(), mask).detach().numpy()
    assert np.abs(marginals - exact).max() < 1e-5


def test_forbidden_tags_have_the_marginal_0():
    session = onnxruntime.InferenceSession(to_onnx(CRF(3)).SerializeToString())
    emissions = np.zeros((4, 2, 3), "float32")
    emissions[:, 0, 1] = emissions[2, 1, 1:] = -np.inf
    inputs = {"emissions": emissions, "mask": np.ones((4, 2), bool)}
    _, marginals = session.run(None, inputs)
    np.testing.assert_array_equal(marginals[np.isneginf(emissions)], 0)
    np.testing.assert_allclose(marginals.sum(-1), 1, atol=1e-6)


def test_an_encoder_and_a_crf_become_one_model():
    """As docs/torch.md says. Names of the CRF's edges also occur in the encoder."""
    from onnx import compose, parser

    encoder = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        encoder (float[B, M, 3] x) => (float[B, M, 3] emissions) { emissions = Neg(x) }""")
    crf, mask = CRF(3, batch_first=True), np.ones((2, 4), bool)
    names = [("emissions", "emissions")]
    both = compose.merge_models(encoder, to_onnx(crf), io_map=names, prefix1="encoder_")
    session = onnxruntime.InferenceSession(both.SerializeToString())
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    (tags,) = session.run(["tags"], {"encoder_x": x, "mask": mask})
    assert tags.tolist() == crf.decode(torch.from_numpy(-x))


@pytest.mark.slow
def test_ten_thousand_cases():
    compare(CRF(9, batch_first=True), 10_000, np.random.default_rng(1))
