"""The Viterbi algorithm on a GPU, and the scores of labelings."""

from __future__ import annotations

from types import ModuleType

from spacy_bcrf.kernels.backend import Array

from .batch import Batch
from .memory import within_memory
from .segments import Segments, cut, segment_length


@within_memory
def max_product(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array
) -> tuple[Array, Array]:
    batch = Batch(xp, unary, transitions, lengths)
    tags = batch.zeros(batch.n, dtype="int32")
    backpointers = batch.empty(batch.n, batch.tags, dtype="uint16")
    # The best length is that for sums. As there, segments are scanned twice, and one scan goes over
    # segments. Backpointers are followed as often: twice in segments, and once over segments.
    if length := segment_length(batch):
        _in_segments(batch, cut(batch, length), backpointers, tags)
        return tags, _path_scores(batch, tags)
    cached, doubles = batch.scan_memory()
    batch.launch(
        *("viterbi", "max_product", batch.size),
        *(batch.unary, batch.transitions, *batch.longest_first, backpointers, tags),
        *(batch.tags, batch.stride, int(cached)),
        doubles=doubles,
    )
    return tags, _path_scores(batch, tags)


def _in_segments(batch: Batch, parts: Segments, backpointers: Array, best: Array) -> None:
    """Set the best labeling, int32 (N,), by the max-plus products of segments.

    A segment's entries are backpointers from its last tag to the last tag of the segment before. So
    all tags come from one set of backpointers, and ties do not depend on segments.

    backpointers: uint16 (N, T), a workspace.
    """
    xp, size, tags = batch.xp, len(parts.starts), batch.tags
    cached, doubles = batch.scan_memory()
    scores = batch.empty(size, tags, tags, dtype="float64")
    rows = batch.empty(size, tags)
    identity = xp.where(xp.eye(tags, dtype=bool), 0, -xp.inf).astype(rows.dtype)
    segments = batch.unary, batch.transitions, parts.starts, parts.lengths, parts.is_start
    sizes = tags, batch.stride, int(cached)
    batch.launch(
        *("viterbi", "segment_scores", (size, tags), *segments, identity, scores, *sizes),
        doubles=doubles,
    )
    batch.launch(
        *("viterbi", "segment_rows", batch.size, scores, parts.firsts, parts.counts, rows, tags),
        doubles=2 * tags,
    )
    ends = batch.zeros(size, dtype="int32")
    entries = batch.empty(size, tags, dtype="uint16")
    batch.launch(
        *("viterbi", "segment_backpointers", size, *segments, rows, backpointers, ends, entries),
        *sizes,
        doubles=doubles,
    )
    lasts = ends[parts.firsts + parts.counts - 1]
    for links, starts, lengths, stops, path in (
        (entries, parts.firsts, parts.counts, lasts, ends),
        (backpointers, parts.starts, parts.lengths, ends, best),
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
