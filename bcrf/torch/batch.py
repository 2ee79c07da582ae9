"""Padded tensors as ragged batches of `chain`, in NumPy or CuPy arrays."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bcrf import chain
from bcrf.chain.potentials import boundaries
from bcrf.io.extras import require
from bcrf.kernels import Array, array_module
from bcrf.kernels.native import pad_rows, take_padded
from bcrf.lazy import lazy

UNKNOWN = -100
"""The tag of a token without annotation, as `ignore_index` of PyTorch's losses."""


class Scores(NamedTuple):
    """Padded scores and their mask, in the shapes of the package's docstring."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor | None
    end: Tensor | None
    mask: Tensor | None


class Batch:
    """Padded scores, and tags as gold if given, as a ragged batch in arrays of NumPy or CuPy.

    Raises ValueError or TypeError naming the first of the tensors that does not fit.
    """

    potentials: chain.Potentials
    gold: Array | None

    def __init__(self, scores: Scores, batch_first: bool, tags: Tensor | None = None) -> None:
        self.shape, self.batch_first = tuple(scores.emissions.shape), batch_first
        if self._read(scores, tags):
            return
        check(scores, tags)
        mask = scores.mask
        self._find_lengths(as_array(scores.emissions if mask is None else mask), mask is not None)
        unary, edges = self.take(scores.emissions), as_array(scores.transitions)
        if edges.ndim == 4:
            edges = self.take(scores.transitions)
        ends = boundaries(self.lengths)
        for x, tokens in zip((scores.start, scores.end), ends, strict=True):
            if x is not None:
                unary[tokens] += as_array(x)
        self.potentials = chain.Potentials(unary, edges, self.lengths)
        self.gold = None if tags is None else self._find_gold(tags)

    @classmethod
    def plain(cls, scores: Scores, batch_first: bool, tags: Tensor) -> "Batch | None":
        """Return the batch of CPU tensors that one compiled loop can read, otherwise None."""
        self = object.__new__(cls)
        self.shape, self.batch_first = tuple(scores.emissions.shape), batch_first
        return self if self._read(scores, tags) else None

    def _read(self, scores: Scores, tags: Tensor | None) -> bool:
        """Read CPU tensors by one compiled loop. Returns False if that fails.

        For other layouts, wrapped and wrong tensors, the slow way finds out what is wrong, and
        where.
        """
        emissions, transitions, start, end, mask = scores
        is_plain = tags is not None and tags.dtype == torch.int64
        try:
            padded, edges = emissions.detach().numpy(), transitions.detach().numpy()
            first = None if start is None else start.detach().numpy()
            last = None if end is None else end.detach().numpy()
            on = None if mask is None else mask.numpy()
            if on is not None:
                on = (on if on.dtype == bool else on != 0).view(np.uint8)
            gold = tags.numpy() if tags is not None and is_plain else None
            if not self.batch_first:
                padded = padded.swapaxes(0, 1)
                on = None if on is None else on.T
                gold = None if gold is None else gold.T
            found = take_padded(padded, edges, first, last, on, gold)
        except (RuntimeError, TypeError, ValueError):
            return False
        if found is None:
            return False
        unary, self.lengths, self.gold = found
        self.xp = np
        self.potentials = chain.Potentials.unchecked(unary, edges, self.lengths, np)
        if tags is not None and not is_plain:
            if tags.device != emissions.device:
                return False
            check(scores, tags)
            self.gold = self._find_gold(tags)
        return True

    def _find_lengths(self, mask: Array, is_mask: bool) -> None:
        """Find the lengths. Raises ValueError for sequences without a token, or with holes."""
        xp = self.xp = array_module(mask)
        steps, size = self.shape[1::-1] if self.batch_first else self.shape[:2]
        if size and not steps:
            raise ValueError(f"emissions have no timestep: their shape is {self.shape}")
        if not is_mask:
            self.lengths = xp.full(size, steps, "int32")
            return
        on = mask if mask.dtype == bool else mask != 0
        on = on if self.batch_first else on.T
        if not on[:, :1].all():
            raise ValueError("mask of the first timestep must all be on")
        holes = on[:, 1:] > on[:, :-1]
        if holes.any():
            sequence, step = divmod(int(holes.argmax()), steps - 1)
            raise ValueError(
                f"mask has a hole in sequence {sequence} before step {step + 1}; padding comes "
                "after the tokens"
            )
        self.lengths = on.sum(axis=1, dtype="int32")

    @lazy
    def index(self) -> Array:
        """The flat padded index of each token, sequence by sequence."""
        xp, (first, second) = self.xp, self.shape[:2]
        grid = xp.arange(first * second).reshape(first, second)
        grid = grid if self.batch_first else grid.T
        return grid[xp.arange(grid.shape[1]) < self.lengths[:, None]]

    def take(self, padded: Tensor) -> Array:
        """Return a copy (N, ...) of the tokens' rows of a padded tensor."""
        rows = as_array(padded)
        return rows.reshape(-1, *rows.shape[2:]).take(self.index, axis=0)

    def pad(self, rows: Array, fill: float = 0) -> Array:
        """Return the rows (N, ...) in the padded layout; padding has `fill`."""
        first, second = self.shape[:2]
        padded = self.xp.full((first * second, *rows.shape[1:]), fill, rows.dtype)
        padded[self.index] = rows
        return padded.reshape(first, second, *rows.shape[1:])

    def _find_gold(self, tags: Tensor) -> Array:
        """Return the tags as gold of `chain`. Raises ValueError naming the first wrong tag."""
        n_tags = self.shape[2]
        if tags.dtype == torch.bool:
            return self.take(tags)
        gold = self.take(tags).astype("int64", copy=False)
        wrong = ((gold < 0) & (gold != UNKNOWN)) | (gold >= n_tags)
        if wrong.any():
            token = int(wrong.argmax())
            sequence = self.potentials.sequence_of(token)
            raise ValueError(
                f"tags has {int(gold[token])} in sequence {sequence} at step "
                f"{token - int(self.potentials.starts[sequence])}; tags go from 0 to {n_tags - 1}, "
                f"{UNKNOWN} is unknown"
            )
        gold[gold == UNKNOWN] = -1
        return gold.astype("int32")

    def gradients(self, unary: Array, edges: Array, factor: float = 1) -> tuple[Tensor, ...]:
        """Return the gradients of emissions, transitions, start and end, times a factor.

        They share no memory with the arrays, because PyTorch adds further gradients in place.
        """
        edges = edges * factor if edges.ndim == 2 else self.pad(edges * factor)
        if self.xp is np:
            padded = np.empty(self.shape, unary.dtype)
            ends = np.zeros((2, self.shape[2]), unary.dtype)
            rows = padded if self.batch_first else padded.swapaxes(0, 1)
            pad_rows(unary, self.lengths, rows, ends, factor)
        else:
            unary = unary * factor
            padded = self.pad(unary)
            ends = self.xp.stack([unary[at].sum(axis=0) for at in boundaries(self.lengths)])
        return tuple(map(as_tensor, (padded, edges, *ends)))

    def weigh(
        self, weights: Array, differentiate: Callable[[chain.Potentials], chain.Potentials]
    ) -> chain.Potentials:
        """Return the gradient of a weighted sum over sequences, from a sum's gradient."""
        w, xp = self.potentials, self.xp
        if len(weights) and (weights == weights[0]).all():
            found = differentiate(w)
            return found.gradient(found.unary * weights[0], found.transitions * weights[0])
        each = xp.broadcast_to(w.transitions, (*w.unary.shape, w.unary.shape[1]))
        found = differentiate(chain.Potentials(w.unary, each, w.lengths))
        by_token = weights[w.segment_ids]
        edges = found.transitions * by_token[:, None, None]
        edges = edges.sum(axis=0) if w.transitions.ndim == 2 else edges
        return found.gradient(found.unary * by_token[:, None], edges)


def check(scores: Scores, tags: Tensor | None = None) -> None:
    """Raise pytorch-crf's errors of wrong shapes, and errors of mixed devices and dtypes."""
    emissions, n_tags = scores.emissions, scores.transitions.shape[-1]
    if emissions.dim() != 3:
        raise ValueError(f"emissions must have dimension of 3, got {emissions.dim()}")
    if emissions.shape[2] != n_tags:
        raise ValueError(
            f"expected last dimension of emissions is {n_tags}, got {emissions.shape[2]}"
        )
    for name, x in {**scores._asdict(), "tags": tags}.items():
        if x is None:
            continue
        if name in ("mask", "tags"):
            if x.dim() < 2:
                raise ValueError(f"{name} must have at least 2 dimensions, got {x.dim()}")
            if x.dim() > 2 and name == "mask":
                raise ValueError(f"mask must have 2 dimensions, got {x.dim()}")
            if x.shape[:2] != emissions.shape[:2]:
                raise ValueError(
                    f"the first two dimensions of emissions and {name} must match, "
                    f"got {tuple(emissions.shape[:2])} and {tuple(x.shape[:2])}"
                )
        elif x.dtype != emissions.dtype:
            raise TypeError(
                f"emissions are {emissions.dtype}, {name} {x.dtype}: convert one of them"
            )
        if x.device != emissions.device:
            raise ValueError(f"emissions are on {emissions.device}, {name} on {x.device}")
    _check_shapes(scores, tags)


def _check_shapes(scores: Scores, tags: Tensor | None) -> None:
    shape = tuple(scores.emissions.shape)
    n_tags, edges = shape[2:], tuple(scores.transitions.shape)
    if edges not in (2 * n_tags, shape + n_tags):
        raise ValueError(f"transitions must be {shape + n_tags} or {2 * n_tags}, got {edges}")
    for name, x in ("start", scores.start), ("end", scores.end):
        if x is not None and tuple(x.shape) != n_tags:
            raise ValueError(f"{name} must be {n_tags}, got {tuple(x.shape)}")
    if tags is None:
        return
    if tags.dtype == torch.bool:
        if tuple(tags.shape) != shape:
            raise ValueError(f"allowed tags must be {shape}, got {tuple(tags.shape)}")
    elif tags.dim() != 2 or tags.is_floating_point():
        raise ValueError(
            f"tags must be integers {shape[:2]} or bool {shape}, got {tags.dtype} "
            f"{tuple(tags.shape)}"
        )


def is_on_gpu(tensor: Tensor) -> bool:
    """Return whether CUDA kernels read a tensor. Tests let them read the CPU's."""
    return tensor.is_cuda


def as_array(tensor: Tensor) -> Array:
    """Return the memory of a tensor as an array of NumPy or CuPy."""
    tensor = tensor.detach() if tensor.requires_grad else tensor
    return (
        require("cupy", extra="cuda12x").from_dlpack(tensor) if tensor.is_cuda else tensor.numpy()
    )


def as_tensor(array: Array) -> Tensor:
    """Return the memory of an array as a tensor."""
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else torch.from_dlpack(array)


def on_stream(tensor: Tensor) -> AbstractContextManager:
    """Run the CUDA kernels on the stream of PyTorch."""
    if not tensor.is_cuda:
        return nullcontext()
    stream = torch.cuda.current_stream(tensor.device)
    return require("cupy", extra="cuda12x").cuda.ExternalStream(stream.cuda_stream)
