"""Padded tensors as ragged batches of `chain`, in NumPy or CuPy arrays."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from spacy_bcrf import chain
from spacy_bcrf.io.extras import require
from spacy_bcrf.kernels import Array, array_module

UNKNOWN = -100
"""The tag of a token without annotation, as `ignore_index` of PyTorch's losses."""

Scores = tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]
"""Emissions, transitions, start, end and mask."""


class Batch:
    """Padded scores as potentials of a ragged batch, in arrays of NumPy or CuPy."""

    def __init__(self, scores: Scores, batch_first: bool) -> None:
        emissions, *others = scores
        for name, x in zip(("transitions", "start", "end", "mask"), others, strict=True):
            if x is None:
                continue
            if x.device != emissions.device:
                raise ValueError(f"emissions are on {emissions.device}, {name} on {x.device}")
            if x.dtype != emissions.dtype and name != "mask":
                raise TypeError(
                    f"emissions are {emissions.dtype}, {name} {x.dtype}: convert one of them"
                )
        transitions, start, end, mask = others
        self.shape, self.batch_first = tuple(emissions.shape), batch_first
        self._find_tokens(as_array(emissions if mask is None else mask), mask is not None)
        unary, edges = self.take(emissions), as_array(transitions)
        n_tags = self.shape[2]
        if edges.ndim == 4:
            if edges.shape != (*self.shape, n_tags):
                expected = (*self.shape, n_tags)
                raise ValueError(
                    f"transitions must be {expected} or {expected[2:]}, got {edges.shape}"
                )
            edges = self.take(transitions)
        edges = self.xp.ascontiguousarray(edges)
        for name, x, tokens in (("start", start, self.starts), ("end", end, self.ends)):
            if x is not None:
                if tuple(x.shape) != (n_tags,):
                    raise ValueError(f"{name} must be {(n_tags,)}, got {tuple(x.shape)}")
                unary[tokens] += as_array(x)
        self.has_ends = start is not None, end is not None
        self.potentials = chain.Potentials.unchecked(unary, edges, self.lengths, self.xp)
        # The batch is well-formed, so only its numbers need a look.
        is_finite = not unary.size or (unary.max() < np.inf and edges.max() < np.inf)
        if edges.shape[-2:] != (n_tags, n_tags) or not is_finite:
            self.potentials = chain.Potentials(unary, edges, self.lengths)

    def _find_tokens(self, mask: Array, is_mask: bool) -> None:
        """Find the flat padded index of each token, sequence by sequence, and the lengths."""
        xp = self.xp = array_module(mask)
        steps, size = self.shape[1::-1] if self.batch_first else self.shape[:2]
        if size and not steps:
            raise ValueError(f"emissions have no timestep: their shape is {self.shape}")
        self.index: Array | None = None
        if is_mask:
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
            grid = xp.arange(steps * size).reshape(*self.shape[:2])
            self.index = (grid if self.batch_first else grid.T)[on]
        else:
            self.lengths = xp.full(size, steps, "int32")
        stops = self.lengths.cumsum()
        self.starts, self.ends = stops - self.lengths, stops - 1

    def take(self, padded: Tensor) -> Array:
        """Return a copy (N, ...) of the tokens' rows of a padded tensor."""
        rows = as_array(padded)
        if self.index is not None:
            return rows.reshape(-1, *rows.shape[2:]).take(self.index, axis=0)
        rows = self.xp.array(rows if self.batch_first else rows.swapaxes(0, 1), order="C")
        return rows.reshape(-1, *rows.shape[2:])

    def pad(self, rows: Array, fill: float = 0) -> Array:
        """Return the rows (N, ...) in the padded layout; padding has `fill`."""
        first, second = self.shape[:2]
        if self.index is None:
            if self.batch_first:
                return rows.reshape(first, second, *rows.shape[1:])
            return rows.reshape(second, first, *rows.shape[1:]).swapaxes(0, 1)
        padded = self.xp.full((first * second, *rows.shape[1:]), fill, rows.dtype)
        padded[self.index] = rows
        return padded.reshape(first, second, *rows.shape[1:])

    def gold(self, tags: Tensor) -> Array:
        """Return the tags as gold of `chain`. Raises ValueError naming the first wrong tag."""
        n_tags = self.shape[2]
        if tags.dtype == torch.bool:
            if tuple(tags.shape) != self.shape:
                raise ValueError(f"allowed tags must be {self.shape}, got {tuple(tags.shape)}")
            return self.take(tags)
        if tags.dim() != 2 or tags.is_floating_point():
            raise ValueError(
                f"tags must be integers {self.shape[:2]} or bool {self.shape}, got {tags.dtype} "
                f"{tuple(tags.shape)}"
            )
        gold = self.take(tags).astype("int64", copy=False)
        # As unsigned numbers, negative tags are the largest.
        if len(gold) and not gold.view("uint64").max() < n_tags:
            wrong = ((gold < 0) & (gold != UNKNOWN)) | (gold >= n_tags)
            if wrong.any():
                token = int(wrong.argmax())
                sequence = self.potentials.sequence_of(token)
                raise ValueError(
                    f"tags has {int(gold[token])} in sequence {sequence} at step "
                    f"{token - int(self.starts[sequence])}; tags go from 0 to {n_tags - 1}, "
                    f"{UNKNOWN} is unknown"
                )
            gold[gold == UNKNOWN] = -1
        return gold.astype("int32")

    def gradients(self, gradient: chain.Potentials, factor: float = 1) -> tuple[Tensor, ...]:
        """Return the gradients of emissions, transitions, start and end, times a factor."""
        unary, edges = gradient.unary, gradient.transitions
        if factor != 1:
            unary *= factor
            edges *= factor
        bounds = zip(self.has_ends, (self.starts, self.ends), strict=True)
        at_ends = [unary.take(at if has else at[:0], axis=0).sum(axis=0) for has, at in bounds]
        edges = edges if edges.ndim == 2 else self.pad(edges)
        return tuple(map(as_tensor, (self.pad(unary), edges, *at_ends)))

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


def as_array(tensor: Tensor) -> Array:
    """Return the memory of a tensor as an array of NumPy or CuPy."""
    tensor = tensor.detach()
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
