"""`bcrf.torch` on an emulated GPU: a stand-in of CuPy and CUDA kernels on the host.

DLPack and PyTorch's CUDA streams are not emulated.
"""

import fake_cupy
import numpy as np
import pytest
from pairwise import pairwise

torch = pytest.importorskip("torch")

from bcrf import kernels  # noqa: E402
from bcrf.chain import potentials  # noqa: E402
from bcrf.chain.potentials import raise_deferred  # noqa: E402
from bcrf.torch import BCRF, CRF, batch, operators, padded  # noqa: E402

LENGTHS = torch.tensor([5, 2, 1])
HEADS = [CRF(4), BCRF(4, n_iter=6)]
MANY = [CRF(70), BCRF(70, n_iter=6)]
"""Of more tags than registers hold."""


@pytest.fixture
def cupy(host, monkeypatch):
    return fake_cupy.install(monkeypatch)


@pytest.fixture
def on_gpu(cupy):
    """A context in which kernels read tensors as if they were on a GPU. New memory has NaN."""
    new_empty, empty = torch.Tensor.new_empty, torch.empty

    def as_array(tensor):
        return tensor.detach().numpy().view(cupy.ndarray)

    def garbage(*shape, **options):
        found = empty(*shape, **options)
        found.view(torch.uint8).fill_(255)
        return found

    def nan(self, shape):
        return new_empty(self, shape).fill_(float("nan"))

    with pytest.MonkeyPatch.context() as patch:

        def start():
            patch.setattr(batch.Batch, "_read", lambda *_: False)  # it is for tensors of the CPU
            patch.setattr(batch, "as_array", as_array)
            for module in (batch, potentials):
                patch.setattr(module, "array_module", kernels.array_module)
            for module in (batch, padded, operators):
                patch.setattr(module, "is_on_gpu", lambda tensor: True)
            patch.setattr(torch, "empty", garbage)
            patch.setattr(torch.Tensor, "new_empty", nan)

        yield start


def mask_of(batch_first, dtype=torch.bool):
    on = torch.arange(5)[:, None] < LENGTHS
    return (on.T if batch_first else on).to(dtype)


def answers(head, emissions, tags, mask, edges=None, reduction="sum"):
    head.zero_grad()
    x = emissions.detach().requires_grad_()
    edges = edges if edges is None else edges.detach().requires_grad_()
    loss = head(x, tags, mask, reduction, edges)
    (loss.sum() if reduction == "none" else 3 * loss).backward()
    found = [*head.parameters(), x, *([] if edges is None else [edges])]
    return [loss.detach(), *(leaf.grad.clone() for leaf in found)]


@pytest.mark.parametrize("head", HEADS + MANY, ids=repr)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_answers_are_those_of_the_cpu(on_gpu, head, batch_first, ragged):
    torch.manual_seed(0)
    shape = (3, 5) if batch_first else (5, 3)
    mask = mask_of(batch_first) if ragged else torch.ones(shape, dtype=torch.bool)
    head.batch_first = batch_first
    emissions, tags = torch.randn(*shape, head.num_tags), torch.randint(4, shape)

    def all_answers():
        queries = (head.marginals(emissions, mask), head.entropy(emissions, mask))
        return [*answers(head, emissions, tags, mask), *queries]

    expected, labelings = all_answers(), head.decode(emissions, mask)
    on_gpu()
    found = all_answers()
    assert head.decode(emissions, mask) == labelings
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.detach(), other.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "head, batch_first, gold, dtype, edges, layout, reduction",
    pairwise(
        HEADS,
        [False, True],
        ["complete", "unknown", "allowed", "int32"],
        [None, torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32],
        [False, True],
        ["plain", "transposed", "sliced"],
        ["sum", "mean", "token_mean", "none"],
    ),
    ids=repr,
)
def test_layouts_are_read_in_place(
    on_gpu, head, batch_first, gold, dtype, edges, layout, reduction
):
    torch.manual_seed(1)
    shape = (3, 5) if batch_first else (5, 3)
    head.batch_first = batch_first
    mask = None if dtype is None else mask_of(batch_first, dtype)
    if dtype is not None and dtype.is_floating_point:
        mask = mask * -2  # also -0 in padding
    emissions, tags = torch.randn(*shape, 4), torch.randint(4, shape)
    if layout == "transposed":
        emissions = torch.randn(shape[1], 4, shape[0]).permute(2, 0, 1)
        tags = tags.T.contiguous().T
    if layout == "sliced":
        emissions, tags = torch.randn(*shape, 9)[..., 1::2], tags.repeat(1, 2)[:, : shape[1]]
        mask = mask if mask is None else mask.repeat(1, 2)[:, : shape[1]]
    if gold == "unknown":
        tags = tags.masked_fill(torch.rand(shape) < 0.5, -100)
    if gold == "allowed":
        tags = torch.nn.functional.one_hot(tags, 4).bool() | (torch.rand(*shape, 4) < 0.3)
    if gold == "int32":
        tags = tags.int()
    matrices = torch.randn(*shape, 4, 4) if edges else None
    if mask is not None:
        # Nothing reads padding.
        off = mask == 0
        emissions[off] = float("nan")
        if gold != "allowed":
            tags = tags.masked_fill(off, 77)
    expected = answers(head, emissions, tags, mask, matrices, reduction)
    on_gpu()
    found = answers(head, emissions, tags, mask, matrices, reduction)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("head", HEADS + MANY, ids=repr)
@pytest.mark.parametrize("edges", [False, True])
def test_a_step_is_few_launches_without_array_operations_and_waits(cupy, host, on_gpu, head, edges):
    head.batch_first = False
    n = head.num_tags
    inputs = torch.randn(5, 3, n), torch.randint(4, (5, 3)), mask_of(False)
    matrices = torch.randn(5, 3, n, n) if edges else None
    on_gpu()
    answers(head, *inputs, matrices)  # creates the flag of errors
    host.launches.clear()
    cupy.counts.operations.clear()
    cupy.counts.waits.clear()
    answers(head, *inputs, matrices, "token_mean")
    assert len(host.launches) == (6 if n == 70 and not edges else 5)
    assert host.launches[0] == "read_padded" and host.launches[-1] == "write_padded"
    assert cupy.counts.operations == cupy.counts.waits == []


def test_decoding_is_three_launches_and_one_copy(cupy, host, on_gpu):
    head = CRF(4)
    emissions, mask = torch.randn(5, 3, 4), mask_of(False)
    on_gpu()
    head.decode(emissions, mask)
    host.launches.clear()
    cupy.counts.operations.clear()
    cupy.counts.waits.clear()
    assert [len(row) for row in head.decode(emissions, mask)] == LENGTHS.tolist()
    assert host.launches == ["read_padded", "max_product", "write_labelings"]
    assert cupy.counts.operations == cupy.counts.waits == []


@pytest.mark.parametrize("head", HEADS, ids=repr)
def test_repeated_launches_compute_a_new_step(host, on_gpu, monkeypatch, head):
    """A CUDA graph repeats the launches of a step with new numbers in the same tensors."""
    head.batch_first = False
    x, tags, mask = torch.randn(5, 3, 4), torch.randint(4, (5, 3)), mask_of(False)
    y, lengths = torch.randn(5, 3, 4), LENGTHS.flip(0)
    later = torch.arange(5)[:, None] < lengths
    expected = head(y, 3 - tags, later).item()
    on_gpu()
    launch, captured = host.launch, []
    with monkeypatch.context() as patch:
        patch.setattr(host, "launch", lambda step: (captured.append(step), launch(step)))
        loss = head(x, tags, mask)
    for tensor, new in ((x, y), (tags, 3 - tags), (mask, later)):
        tensor.copy_(new)
    for step in captured:
        launch(step)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


WRONG = {
    "wrong tag": ("tags", 4, "gold has a tag outside of the potentials' tags in sequence 1"),
    "negative tag": ("tags", -1, "gold has a tag outside of the potentials' tags in sequence 1"),
    "hole": ("mask", False, "mask has a hole in sequence 1"),
    "no first token": ("first", False, "mask of the first timestep must all be on: sequence 1"),
    "not a number": ("emissions", float("nan"), "sequence 1 has NaN or [+]inf among its scores"),
}


@pytest.mark.parametrize("what, number, message", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("head", HEADS, ids=repr)
def test_errors_in_the_data_are_raised_at_the_next_wait(cupy, on_gpu, head, what, number, message):
    head.batch_first = True
    right = torch.randn(3, 5, 4), torch.randint(4, (3, 5)), torch.ones(3, 5, dtype=torch.bool)
    emissions, tags, mask = (x.clone() for x in right)
    changed = {"tags": tags, "mask": mask, "first": mask, "emissions": emissions}[what]
    changed[1, 0 if what == "first" else 2] = number
    on_gpu()
    loss = head(emissions, tags, mask)
    assert what == "tags" or loss.isnan()
    with pytest.raises(ValueError, match=message):
        raise_deferred(np.zeros(1).view(cupy.ndarray))
    assert head(*right).isfinite()
    raise_deferred(np.zeros(1).view(cupy.ndarray))
    head(emissions, tags, mask)
    with pytest.raises(ValueError, match=message):
        head.decode(right[0])


def test_decoding_names_sequences_without_a_labeling(on_gpu):
    head = CRF(4)
    emissions = torch.randn(5, 3, 4)
    emissions[2, 1] = -float("inf")
    on_gpu()
    with pytest.raises(ValueError, match="sequence 1 has no allowed labeling"):
        head.decode(emissions)
    emissions[2, 1] = float("nan")
    with pytest.raises(ValueError, match="sequence 1 has NaN"):
        head.decode(emissions)
    assert head.decode(torch.randn(5, 3, 4))
