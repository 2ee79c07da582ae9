"""Lists of labelings on a GPU.

Features add up there. The other kernels run on the host, over copies: they are searches, or take
little data.
"""

from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from bcrf.kernels import native
from bcrf.kernels.backend import Array

from .gpu_batch import Batch
from .memory import Kernel, to_host


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
