"""Lists of labelings on a GPU.

Beam search and features run there. The other kernels run on the host, over copies: they use a
priority queue or little data.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from spacy_bcrf.kernels import native
from spacy_bcrf.kernels.backend import Array

from .batch import Batch
from .memory import Kernel, to_host, within_memory

BLOCKS = 8
"""Blocks of a beam search for each multiprocessor. A block takes sequences in turn."""


@within_memory
def beam_search(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n: int, width: int
) -> tuple[Array, Array]:
    batch = Batch(xp, unary, transitions, lengths)
    tags = batch.zeros(n, batch.n, dtype="int32")
    scores = xp.full((batch.size, n), -xp.inf, dtype=unary.dtype)
    scores[:, 0] = xp.where(batch.lengths == 0, 0, scores[:, 0])
    threads = min(max(width, batch.tags, 128), 256)
    # Each prefix takes a key, a score and a candidate.
    doubles = -(-20 * width // 8) + 1
    if 8 * (doubles + threads) > batch.device.shared_memory:
        return _host_beam_search(xp, unary, transitions, lengths, n, width)
    blocks = min(batch.size, BLOCKS * batch.device.multiprocessors)
    order = xp.argsort(-batch.lengths).astype("int32")
    batch.launch(
        *("beam", "beam_search", blocks if batch.n else 0, batch.unary, batch.transitions),
        *(order, batch.starts, batch.lengths),
        batch.empty(blocks, width * batch.tags, dtype="uint64"),
        batch.empty(batch.n, batch.tags, dtype="int8"),
        batch.empty(batch.n, width, dtype="int32"),
        *(tags, scores, batch.size, n, width, np.int64(batch.n), batch.tags, batch.stride),
        threads=threads,
        doubles=doubles,
    )
    return tags, scores


def add_features(
    xp: ModuleType, tags: Array, weights: Array, lengths: Array, node: Array, edge: Array
) -> None:
    batch = Batch(xp, node, edge, lengths)
    with batch.device.current():
        # Shared transitions sum over the whole batch, which needs double precision.
        sums = xp.zeros(edge.shape) if batch.shared else None
        batch.launch(
            *("viterbi", "add_features", min(-(-batch.n // 128), 1 << 15)),
            xp.ascontiguousarray(tags, dtype="int32"),
            xp.ascontiguousarray(weights, dtype=node.dtype),
            *(batch.sequence_ids, node, sums, None if batch.shared else edge),
            *(len(tags), np.int64(batch.n), batch.tags),
            threads=128,
        )
        if sums is not None:
            edge += sums.astype(edge.dtype)


def _on_host(kernel: Kernel) -> Kernel:
    """Return a compiled kernel for CuPy arrays, which copies them to the host and results back."""

    def run(xp: ModuleType, *args: Any) -> Any:
        found = kernel(np, *(arg if isinstance(arg, int | float) else to_host(arg) for arg in args))
        if isinstance(found, tuple):
            return tuple(xp.asarray(array) for array in found)
        return xp.asarray(found)

    return run  # type: ignore[return-value]


nbest = _on_host(native.nbest)
dijkstra = _on_host(native.dijkstra)
sample = _on_host(native.sample)
gram_matrices = _on_host(native.gram_matrices)
hildreth = _on_host(native.hildreth)
_host_beam_search = _on_host(native.beam_search)
