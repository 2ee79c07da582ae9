"""The Viterbi algorithm on a GPU."""

from types import ModuleType

from bcrf.kernels.backend import Array

from .gpu_batch import INT, Batch
from .memory import within_memory


@within_memory
def max_product(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array
) -> tuple[Array, Array]:
    return find_best(Batch(xp, unary, transitions, lengths))


def find_best(batch: Batch) -> tuple[Array, Array]:
    """Return the best labeling, int32 (N,), and its score (B,)."""
    best, scores = batch.empty(batch.n, dtype=INT), batch.empty(batch.size)
    args = {"best": best, "scores": scores, "starts": batch.starts}
    args["backpointers"] = batch.empty(batch.n, batch.tags, dtype="uint16")
    batch.launch("viterbi", "max_product", batch.size, args, doubles=2 * batch.tags)
    return best, scores
