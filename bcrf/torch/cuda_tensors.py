"""Log-likelihoods and labelings of CUDA tensors, which kernels read where they lie.

Nothing waits and all memory is PyTorch's: a CUDA graph can capture a training step.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bcrf import chain
from bcrf.io.extras import require
from bcrf.kernels.cuda import device, padded
from bcrf.kernels.cuda.errors import name_error

from .batch import Scores, check, is_on_gpu, on_stream

DTYPES = {getattr(torch, name): np.dtype(name) for name in ("float32", "float64", "int64", "bool")}
DTYPES[torch.uint8] = np.dtype("uint8")


def find_loss(
    scores: Scores,
    tags: Tensor,
    reduction: str,
    inference: chain.Inference,
    batch_first: bool,
) -> list[Tensor] | None:
    """Return the log-likelihood and its four gradients, None if the kernels lack this loss.

    Wrong tags and masks raise an error at the next wait, see `chain.potentials.raise_deferred`.
    """
    if not is_on_gpu(scores.emissions) or type(inference) not in (chain.CRF, chain.BCRF):
        return None
    batch = _batch(scores, tags, batch_first)
    if not batch.n:
        return None
    options = inference.options() if isinstance(inference, chain.BCRF) else None
    emissions, edges = scores.emissions, scores.transitions
    shapes = (batch.size,) if reduction == "none" else (), emissions.shape, edges.shape
    found = [emissions.new_empty(x) for x in (*shapes, batch.tags, batch.tags)]
    order = (batch.steps, 1) if batch_first else (1, batch.size)
    with batch.device.current(), on_stream(emissions):
        outputs = padded.Outputs(*map(_part, found))
        padded.write_loss(batch, options, outputs, order, reduction)
    return found


def find_labelings(
    scores: Scores, inference: chain.Inference, batch_first: bool
) -> tuple[Tensor, Tensor] | None:
    """Return the best tags (B, L) and the lengths (B,), on the host.

    None if the kernels lack this search.
    """
    if not is_on_gpu(scores.emissions) or type(inference) is not chain.CRF:
        return None
    batch = _batch(scores, None, batch_first)
    if not batch.n:
        return None
    both = torch.empty(batch.n + batch.size + 1, dtype=torch.int64, device=scores.emissions.device)
    rows, sizes = both[: batch.n], both[batch.n :]
    with batch.device.current(), on_stream(scores.emissions):
        padded.write_labelings(batch, _part(rows), _part(sizes))
    both = both.cpu()
    for sequence, problem in name_error(int(both[-1])):
        raise chain.potentials.bad_sequence(sequence, problem)
    return both[: batch.n].view(batch.size, batch.steps), both[batch.n : -1]


def _batch(scores: Scores, tags: Tensor | None, batch_first: bool) -> padded.PaddedBatch:
    check(scores, tags)
    emissions, transitions, start, end, mask = scores
    first, second, n_tags = emissions.shape

    def tensor(x: Tensor) -> padded.Tensor:
        return padded.Tensor(_part(x), _strides(x, batch_first))

    if tags is not None and tags.dtype not in (torch.int64, torch.bool):
        tags = tags.long()
    shared = transitions.dim() == 2
    read = padded.Padded(
        tensor(emissions),
        padded.Tensor(_part(transitions.contiguous()), ()) if shared else tensor(transitions),
        None if start is None else _part(start.contiguous()),
        None if end is None else _part(end.contiguous()),
        None if mask is None else _mask(mask, batch_first),
        None if tags is None else tensor(tags),
    )

    def allocate(size: int) -> tuple[Any, int]:
        memory = torch.empty(size, dtype=torch.uint8, device=emissions.device)
        return memory, memory.data_ptr()

    shape = (first, second) if batch_first else (second, first)
    cupy = require("cupy", extra="cuda12x")
    return padded.PaddedBatch(cupy, device.find(emissions), (*shape, n_tags), read, allocate)


def _part(tensor: Tensor) -> device.Part:
    return device.Part(tensor, tensor.data_ptr(), tensor.numel(), DTYPES[tensor.dtype])


def _mask(mask: Tensor, batch_first: bool) -> padded.Mask:
    if mask.is_complex():
        mask = mask != 0
    size = mask.element_size()
    memory = device.Part(mask, mask.data_ptr(), mask.numel() * size, DTYPES[torch.uint8])
    return padded.Mask(
        memory, _strides(mask, batch_first), (size, 0x7F if mask.is_floating_point() else 0xFF)
    )


def _strides(x: Tensor, batch_first: bool) -> tuple[int, ...]:
    """Return the strides: of sequences, steps, and the other axes."""
    first, second, *rest = x.stride()
    return (first, second, *rest) if batch_first else (second, first, *rest)
