"""Log-likelihoods and labelings of CUDA tensors, which kernels read where they lie.

One launch of padded.cu reads the tensors ahead of the kernels of ragged batches, and one writes
after them. Nothing waits and all memory is PyTorch's: a CUDA graph can capture a training step.
"""

from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bcrf import chain
from bcrf.io.extras import require
from bcrf.kernels import Edges, Result
from bcrf.kernels.cuda import device, gpu_batch
from bcrf.kernels.cuda.errors import error_flag, name_error
from bcrf.kernels.cuda.forward_backward import forward_backward
from bcrf.kernels.cuda.gpu_batch import BYTE, INT, LONG
from bcrf.kernels.cuda.projections import project
from bcrf.kernels.cuda.viterbi import find_best

from .batch import Scores, check, is_on_gpu, on_stream

BOOL = np.dtype("bool")
DTYPES = {getattr(torch, name): np.dtype(name) for name in ("float32", "float64", "int64", "bool")}
DTYPES[torch.uint8] = np.dtype("uint8")
THREADS = 256


def find_loss(
    scores: Scores,
    tags: Tensor,
    reduction: str,
    inference: chain.Inference,
    batch_first: bool,
) -> list[Tensor] | None:
    """Return the log-likelihood and its four gradients, None if the kernels lack this loss.

    Five launches, six with many tags. Wrong tags and masks raise an error at the next wait, see
    `chain.potentials.raise_deferred`.
    """
    if not is_on_gpu(scores.emissions) or type(inference) not in (chain.CRF, chain.BCRF):
        return None
    batch = PaddedBatch(scores, tags, batch_first)
    if not batch.n:
        return None
    emissions, edges = scores.emissions, scores.transitions
    shapes = (batch.size,) if reduction == "none" else (), emissions.shape, edges.shape
    found = [emissions.new_empty(x) for x in (*shapes, batch.tags, batch.tags)]
    names = "value", "d_emissions", "d_edges", "d_start", "d_end"
    by_sequence, by_step = (batch.steps, 1) if batch_first else (1, batch.size)
    with batch.device.current(), on_stream(emissions):
        batch.read()
        result = _infer(batch, inference)
        args = {
            **dict(zip(names, map(_part, found), strict=True)),
            **{"losses": result.value, "unary": result.unary, "edges": result.edges},
            **{"by_sequence": by_sequence, "by_step": by_step, "steps": batch.steps},
            **{"each": not batch.shared, "reduced": reduction != "none"},
            "by_token": reduction == "token_mean",
            "factor": -1.0 / max(1, batch.size) if reduction == "mean" else -1.0,
        }
        blocks = batch.size + batch.tags + 1
        batch.launch("padded", "write_padded", blocks, args, threads=THREADS)
    return found


def _infer(batch: "PaddedBatch", inference: chain.Inference) -> Result:
    """Return the losses of a batch and their gradient."""
    edges: Edges = "sum" if batch.shared else "each"
    if isinstance(inference, chain.BCRF):
        return project(batch, inference.options(), edges, batch.gold)
    return forward_backward(batch, edges, True, gold=batch.gold)


def find_labelings(
    scores: Scores, inference: chain.Inference, batch_first: bool
) -> tuple[Tensor, Tensor] | None:
    """Return the best tags (B, L), with -100 in padding, and the lengths (B,), on the host.

    Three launches and a copy. None if the kernels lack this search.
    """
    if not is_on_gpu(scores.emissions) or type(inference) is not chain.CRF:
        return None
    batch = PaddedBatch(scores, None, batch_first)
    if not batch.n:
        return None
    both = torch.empty(batch.n + batch.size + 1, dtype=torch.int64, device=scores.emissions.device)
    with batch.device.current(), on_stream(scores.emissions):
        counter = batch.read()
        best, labeling_scores = find_best(batch)
        args: dict[str, Any] = {"rows": _part(both[: batch.n]), "sizes": _part(both[batch.n :])}
        args |= {"best": best, "scores": labeling_scores, "steps": batch.steps}
        args |= {"errors": error_flag(batch), "counter": counter}
        batch.launch("padded", "write_labelings", batch.size, args, threads=THREADS)
    both = both.cpu()
    for sequence, problem in name_error(int(both[-1])):
        raise chain.potentials.bad_sequence(sequence, problem)
    return both[: batch.n].view(batch.size, batch.steps), both[batch.n : -1]


class PaddedBatch(gpu_batch.Batch):
    """Padded scores as a ragged batch of B x L rows, where kernels skip the rows of padding.

    tags: integers with -100 for unknown, or bool for allowed tags. The batch does not call CuPy,
    except for the flag of errors.
    """

    def __init__(self, scores: Scores, tags: Tensor | None, batch_first: bool) -> None:
        check(scores, tags)
        if tags is not None and tags.dtype not in (torch.int64, torch.bool):
            tags = tags.long()
        emissions, transitions = scores.emissions, scores.transitions
        self.scores, self.gold_tags, self.batch_first = scores, tags, batch_first
        self.xp, self.device = require("cupy", extra="cuda12x"), device.find(emissions)
        first, second, self.tags = emissions.shape
        self.size, self.steps = (first, second) if batch_first else (second, first)
        self.n = self.size * self.steps
        self.shared = transitions.dim() == 2
        self.unary: Any = _part(emissions)
        self.transitions: Any = _part(transitions.contiguous() if self.shared else transitions)
        self.lengths: Any = None
        self.gold: Any = None

    def allocate(self, size: int) -> tuple[Any, int]:
        memory = torch.empty(size, dtype=torch.uint8, device=self.scores.emissions.device)
        return memory, memory.data_ptr()

    def empty(self, *shape: int, dtype: Any = None) -> Any:
        return self.scratch(found=(prod(shape), np.dtype(dtype or self.unary.dtype)))["found"]

    def read(self) -> device.Part:
        """Launch `read_padded`, which sets the arrays. Return a counter of blocks, 0."""
        emissions, transitions, start, end, mask = self.scores
        tags, cells, dtype = self.gold_tags, self.n * self.tags, self.unary.dtype
        has_sets = tags is not None and tags.dtype == torch.bool
        found = self.scratch(
            unary=(cells, dtype),
            each=(0 if self.shared else cells * self.tags, dtype),
            gold=(0 if tags is None or has_sets else self.n, INT),
            sets=(cells if has_sets else 0, BYTE),
            lengths=(self.size, INT),
            starts=(self.size, LONG),
            counter=(1, INT),
        )
        if mask is not None and mask.is_complex():
            mask = mask != 0
        args = {
            **{"emissions": self.unary, "by_emissions": self._strides(emissions)},
            "transitions": None if self.shared else self.transitions,
            "by_transitions": self._strides(None if self.shared else transitions),
            "start": None if start is None else _part(start.contiguous()),
            "end": None if end is None else _part(end.contiguous()),
            "mask": None if mask is None else _part(mask)._replace(dtype=DTYPES[torch.uint8]),
            **{"by_mask": self._strides(mask), "by_gold": self._strides(tags)},
            "bytes": 1 if mask is None else mask.element_size(),
            # The bits of a number's last byte without a sign.
            "top": 0x7F if mask is not None and mask.is_floating_point() else 0xFF,
            "gold_tags": None if tags is None or has_sets else _part(tags),
            "allowed": _part(tags).view(BYTE) if tags is not None and has_sets else None,
            **{"errors": error_flag(self), "steps": self.steps},
        }
        self.launch("padded", "read_padded", self.size, found | args, threads=THREADS)
        self.unary, self.lengths, self.starts = (found[x] for x in ("unary", "lengths", "starts"))
        self.gold = found["sets"].view(BOOL) if has_sets else found["gold"]
        if not self.shared:
            self.transitions = found["each"]
        return found["counter"]

    def _strides(self, tensor: Tensor | None) -> tuple[int, ...]:
        """Return four strides, of sequences, steps and other axes; 0 for axes that are missing."""
        first, second, *rest = (0, 0) if tensor is None else tensor.stride()
        if not self.batch_first:
            first, second = second, first
        return (first, second, *rest, *(0,) * (2 - len(rest)))


def _part(tensor: Tensor) -> device.Part:
    dtype = DTYPES.get(tensor.dtype, np.dtype("uint8"))
    return device.Part(tensor, tensor.data_ptr(), tensor.numel(), dtype)
