"""The Viterbi algorithm on a GPU, and the scores of labelings."""

from types import ModuleType

from bcrf.kernels.backend import Array

from .gpu_batch import Batch
from .memory import within_memory


@within_memory
def max_product(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array
) -> tuple[Array, Array]:
    batch = Batch(xp, unary, transitions, lengths)
    tags = batch.zeros(batch.n, dtype="int32")
    find_best(batch, tags)
    return tags, score_path(batch, tags)


def find_best(batch: Batch, tags: Array) -> None:
    """Write the best labeling, int32 (N,)."""
    backpointers = batch.empty(batch.n, batch.tags, dtype="uint16")
    batch.launch(
        *("viterbi", "max_product", batch.size),
        *(batch.unary, batch.transitions, batch.starts, batch.lengths, backpointers, tags),
        *(batch.tags, batch.stride),
        doubles=2 * batch.tags,
    )


@within_memory
def path_scores(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, tags: Array
) -> Array:
    batch = Batch(xp, unary, transitions, lengths)
    return score_path(batch, xp.ascontiguousarray(tags, dtype="int32"))


def score_path(batch: Batch, tags: Array) -> Array:
    """Return the score (B,) of one labeling, int32 (N,)."""
    scores = batch.empty(batch.size)
    batch.launch(
        *("viterbi", "path_scores", batch.size),
        *(batch.unary, batch.transitions, batch.starts, batch.lengths, tags, scores),
        *(batch.tags, batch.stride),
        threads=256,
    )
    return scores
