"""Given labelings, and lists of labelings, on a GPU.

CuPy's operations sum scores and features. The other kernels run on the host, over copies: they are
searches, or take little data.
"""

from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from bcrf.kernels import native
from bcrf.kernels.backend import Array

from .gpu_batch import Batch
from .memory import Kernel, to_host, within_memory


@within_memory
def path_scores(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, tags: Array
) -> Array:
    batch, tokens = Batch(xp, unary, transitions, lengths), xp.arange(len(tags))
    scores = unary[tokens, tags].astype("float64")
    # A sequence's last token has no edge.
    edges = transitions[(*(() if batch.shared else (tokens[:-1],)), tags[:-1], tags[1:])]
    inner = batch.sequence_ids[:-1] == batch.sequence_ids[1:]
    scores[:-1] += xp.where(inner, edges, 0)
    found = xp.zeros(batch.size)
    xp.add.at(found, batch.sequence_ids, scores)
    return found.astype(unary.dtype)


def add_features(
    xp: ModuleType, tags: Array, weights: Array, lengths: Array, node: Array, edge: Array
) -> None:
    batch = Batch(xp, node, edge, lengths)
    with batch.device.current():
        tokens, by_token = xp.arange(batch.n), weights.T[:, batch.sequence_ids]
        xp.add.at(node, (xp.broadcast_to(tokens, tags.shape), tags), by_token)
        inner = batch.sequence_ids[:-1] == batch.sequence_ids[1:]
        pairs, of_edges = (tags[:, :-1], tags[:, 1:]), xp.where(inner, by_token[:, :-1], 0)
        if not batch.shared:
            xp.add.at(edge, (xp.broadcast_to(tokens[:-1], pairs[0].shape), *pairs), of_edges)
            return
        # Shared transitions sum over the whole batch, which needs double precision.
        sums = xp.zeros(edge.shape)
        xp.add.at(sums, pairs, of_edges.astype("float64"))
        edge += sums.astype(edge.dtype)


def _on_host(kernel: Kernel) -> Kernel:
    """Return a compiled kernel for CuPy arrays, which copies them to the host and results back."""

    @wraps(kernel)
    def run(xp: ModuleType, *args: Any) -> Any:
        found = kernel(np, *(arg if isinstance(arg, int | float) else to_host(arg) for arg in args))
        if isinstance(found, tuple):
            return tuple(xp.asarray(array) for array in found)
        return xp.asarray(found)

    return run  # type: ignore[return-value]


nbest = _on_host(native.nbest)
beam_search = _on_host(native.beam_search)
dijkstra = _on_host(native.dijkstra)
sample = _on_host(native.sample)
gram_matrices = _on_host(native.gram_matrices)
hildreth = _on_host(native.hildreth)
