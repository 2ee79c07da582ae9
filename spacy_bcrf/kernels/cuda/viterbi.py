"""The Viterbi algorithm on a GPU, and the scores of labelings."""

from __future__ import annotations

from types import ModuleType

from spacy_bcrf.kernels.backend import Array

from .batch import Batch
from .chunks import Chunks, chunk_length, cut
from .memory import within_memory


@within_memory
def max_product(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array
) -> tuple[Array, Array]:
    batch = Batch(xp, unary, transitions, lengths)
    tags = batch.zeros(batch.n, dtype="int32")
    backpointers = batch.empty(batch.n, batch.tags, dtype="uint16")
    # The best length is that for sums. As there, chunks are scanned twice, and one scan goes over
    # chunks. Backpointers are followed as often: twice in chunks, and once over chunks.
    if length := chunk_length(batch):
        _in_chunks(batch, cut(batch, length), backpointers, tags)
        return tags, _path_scores(batch, tags)
    cached, doubles = batch.scan_memory()
    batch.launch(
        *("viterbi", "max_product", batch.size),
        *(batch.unary, batch.transitions, *batch.longest_first, backpointers, tags),
        *(batch.tags, batch.stride, int(cached)),
        doubles=doubles,
    )
    return tags, _path_scores(batch, tags)


def _in_chunks(batch: Batch, chunks: Chunks, backpointers: Array, best: Array) -> None:
    """Set the best labeling, int32 (N,), by the max-plus products of chunks.

    A chunk's entries are backpointers from its last tag to the last tag of the chunk before. So
    all tags come from one set of backpointers, and ties do not depend on chunks.

    backpointers: uint16 (N, T), a workspace.
    """
    xp, size, tags = batch.xp, len(chunks.starts), batch.tags
    cached, doubles = batch.scan_memory()
    scores = batch.empty(size, tags, tags, dtype="float64")
    rows = batch.empty(size, tags)
    identity = xp.where(xp.eye(tags, dtype=bool), 0, -xp.inf).astype(rows.dtype)
    tiles = batch.unary, batch.transitions, *chunks[:4]
    sizes = tags, batch.stride, int(cached)
    batch.launch(
        *("viterbi", "chunk_scores", (size, tags), *tiles, identity, scores, *sizes),
        doubles=doubles,
    )
    batch.launch(
        *("viterbi", "chunk_rows", batch.size, scores, chunks.firsts, chunks.counts, rows, tags),
        doubles=2 * tags,
    )
    ends = batch.zeros(size, dtype="int32")
    entries = batch.empty(size, tags, dtype="uint16")
    batch.launch(
        *("viterbi", "chunk_backpointers", size, *tiles, rows, backpointers, ends, entries),
        *sizes,
        doubles=doubles,
    )
    lasts = ends[chunks.firsts + chunks.counts - 1]
    for links, starts, lengths, stops, path in (
        (entries, chunks.firsts, chunks.counts, lasts, ends),
        (backpointers, chunks.starts, chunks.lengths, ends, best),
    ):
        batch.launch(
            *("viterbi", "paths", len(starts), links, starts, lengths, stops, path, tags),
            doubles=doubles,
        )


@within_memory
def path_scores(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, tags: Array
) -> Array:
    batch = Batch(xp, unary, transitions, lengths)
    return _path_scores(batch, xp.ascontiguousarray(tags, dtype="int32"))


def _path_scores(batch: Batch, tags: Array) -> Array:
    scores = batch.empty(batch.size)
    batch.launch(
        *("viterbi", "path_scores", batch.size),
        *(batch.unary, batch.transitions, batch.starts, batch.lengths, tags, scores),
        *(batch.tags, batch.stride),
        threads=256,
    )
    return scores
