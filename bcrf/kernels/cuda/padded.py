"""Log-likelihoods and labelings of padded tensors, without array operations and waits.

One launch reads the tensors ahead of the kernels of ragged batches, and one writes after them.
"""

from collections.abc import Callable
from math import prod
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bcrf.kernels.backend import BregmanOptions, Edges

from .device import Device, Part
from .errors import error_flag
from .gpu_batch import BYTE, INT, LONG, Batch
from .projections import project
from .sum_product import forward_backward
from .viterbi import find_best, score_path

BOOL = np.dtype("bool")
THREADS = 256


class Tensor(NamedTuple):
    """The memory of a tensor, and the strides of its axes: sequence, step, and more, in numbers."""

    memory: Part
    strides: tuple[int, ...]


class Mask(NamedTuple):
    """The bytes of a mask. number: bytes of each, and the bits of its last byte without a sign."""

    memory: Part
    strides: tuple[int, ...]
    number: tuple[int, int]


class Padded(NamedTuple):
    """Padded scores. transitions: with four strides if each edge has a matrix, otherwise none.

    tags: int64 with -100 for unknown, or bool for allowed tags.
    """

    emissions: Tensor
    transitions: Tensor
    start: Part | None
    end: Part | None
    mask: Mask | None
    tags: Tensor | None


class Outputs(NamedTuple):
    """Memory of the log-likelihood and its gradients, see `write_padded` of padded.cu."""

    value: Part
    emissions: Part
    transitions: Part
    start: Part
    end: Part


class PaddedBatch(Batch):
    """Padded scores as a ragged batch of B x L rows, where kernels skip the rows of padding.

    shape: (B, L, T). allocate: returns so many bytes of the GPU, and their address. The batch does
    not call `xp`, except for the flag of errors.
    """

    def __init__(
        self,
        xp: ModuleType,
        found: Device,
        shape: tuple[int, int, int],
        scores: Padded,
        allocate: Callable[[int], tuple[Any, int]],
    ) -> None:
        self.xp, self.device, self.scores, self._allocate = xp, found, scores, allocate
        self.size, self.steps, self.tags = shape
        self.n = self.size * self.steps
        self.shared = not scores.transitions.strides
        self.unary: Any = scores.emissions.memory
        self.transitions: Any = scores.transitions.memory
        self.gold: Any = None

    def allocate(self, size: int) -> tuple[Any, int]:
        return self._allocate(size)

    def empty(self, *shape: int, dtype: Any = None) -> Any:
        return self.scratch(found=(prod(shape), np.dtype(dtype or self.unary.dtype)))["found"]

    def read(self) -> Part:
        """Launch `read_padded`, which sets the arrays. Return a counter of blocks, 0."""
        emissions, transitions, start, end, mask, tags = self.scores
        tag_memory, *tag_strides = _flat(tags, 3)
        has_sets = tags is not None and tags.memory.dtype == BOOL
        cells, dtype = self.n * self.tags, self.unary.dtype
        found = self.scratch(
            unary=(cells, dtype),
            each=(0 if self.shared else cells * self.tags, dtype),
            gold=(cells if has_sets else self.n, BOOL if has_sets else INT),
            lengths=(self.size, INT),
            starts=(self.size, LONG),
            counter=(1, INT),
        )
        unary, each, gold, lengths, starts, counter = found.values()
        # Either tags or sets of allowed tags, as input and as output.
        given: Any = (tag_memory, None)
        kept: Any = (None if tags is None else gold, None)
        if has_sets:
            given, kept = (None, tag_memory.view(BYTE)), (None, gold.view(BYTE))
        self.launch(
            *("padded", "read_padded", self.size, *_flat(emissions, 3), start, end),
            *(_flat(None if self.shared else transitions, 4)),
            *(*_flat(mask, 2), *(mask.number if mask else (1, 0)), *given, *tag_strides),
            *(unary, None if self.shared else each, *kept, lengths, starts, counter),
            *(error_flag(self), self.steps, self.tags),
            threads=THREADS,
        )
        self.unary, self.lengths, self.starts = unary, lengths, starts
        self.gold = None if tags is None else gold
        if not self.shared:
            self.transitions = each
        return counter


def _flat(tensor: Tensor | Mask | None, axes: int) -> tuple[Any, ...]:
    """Return the memory and so many strides; null and zeros for None."""
    if tensor is None:
        return (None, *(0,) * axes)
    return (tensor.memory, *tensor.strides, *(0,) * (axes - len(tensor.strides)))


def write_loss(
    batch: PaddedBatch,
    options: BregmanOptions | None,
    out: Outputs,
    order: tuple[int, int],
    reduction: str,
) -> None:
    """Write the log-likelihood of gold and its gradient: five launches, six with many tags.

    options: None for a CRF. order: the strides of sequences and steps in the outputs, in rows.
    reduction: of `bcrf.torch.log_likelihood`.
    """
    batch.read()
    edges: Edges = "sum" if batch.shared else "each"
    if options is None:
        found = forward_backward(batch, edges, True, gold=batch.gold)
    else:
        found = project(batch, options, edges, batch.gold)
    factor = -1.0 / max(1, batch.size) if reduction == "mean" else -1.0
    batch.launch(
        *("padded", "write_padded", batch.size + batch.tags + 1, found.value, found.unary),
        *(found.edges, batch.lengths, *out, *order, batch.size, batch.steps, batch.tags),
        *(int(not batch.shared), int(reduction != "none"), int(reduction == "token_mean"), factor),
        threads=THREADS,
    )


def write_labelings(batch: PaddedBatch, rows: Part, sizes: Part) -> None:
    """Write the best labelings (B, L), and lengths (B,) and the first error: four launches.

    rows: int64, padding has -100. sizes: int64 (B + 1,), see `errors.name_error`.
    """
    counter = batch.read()
    best = batch.empty(batch.n, dtype=INT)
    find_best(batch, best)
    scores = score_path(batch, best)
    batch.launch(
        *("padded", "write_labelings", batch.size, best, scores, batch.lengths, rows, sizes),
        *(error_flag(batch), counter, batch.size, batch.steps),
        threads=THREADS,
    )
