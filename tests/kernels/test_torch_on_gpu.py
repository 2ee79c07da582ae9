"""`bcrf.torch` on an emulated GPU: a stand-in of CuPy and CUDA kernels on the host.

DLPack and PyTorch's CUDA streams are not emulated.
"""

import fake_cupy
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bcrf.torch import BCRF, CRF, batch  # noqa: E402


@pytest.fixture
def cupy(host, monkeypatch):
    return fake_cupy.install(monkeypatch)


def answers(head, emissions, tags, mask):
    head.zero_grad()
    loss = head(emissions, tags, mask)
    loss.backward()
    gradients = [x.grad.clone() for x in head.parameters()]
    return [
        loss.detach(),
        *gradients,
        head.marginals(emissions, mask),
        head.entropy(emissions, mask),
    ]


@pytest.mark.parametrize("head", [CRF(4), BCRF(4, n_iter=6)], ids=repr)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_answers_are_those_of_the_cpu(cupy, head, batch_first, ragged):
    torch.manual_seed(0)
    shape = (3, 5) if batch_first else (5, 3)
    lengths, steps = torch.tensor([5, 2, 1]), torch.arange(5)
    on = steps[:, None] < lengths if ragged else torch.ones(5, 3, dtype=torch.bool)
    mask = on.T if batch_first else on
    head.batch_first = batch_first
    emissions, tags = torch.randn(*shape, 4), torch.randint(4, shape)
    expected, labelings = answers(head, emissions, tags, mask), head.decode(emissions, mask)
    with pytest.MonkeyPatch.context() as patch:
        seen = []

        def as_array(tensor):
            seen.append(tensor)
            return tensor.detach().numpy().view(cupy.ndarray)

        patch.setattr(batch.Batch, "_read", lambda *_: False)  # it is for tensors of the CPU
        patch.setattr(batch, "as_array", as_array)
        patch.setattr(batch, "array_module", lambda array: cupy)
        found = answers(head, emissions, tags, mask)
        assert head.decode(emissions, mask) == labelings
    assert seen
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.detach(), other.detach(), rtol=1e-4, atol=1e-5)
