"""Segments of few, long sequences, so that more of the GPU works on them."""

from __future__ import annotations

from typing import NamedTuple

from spacy_bcrf.kernels.backend import Array

from .batch import Batch

BLOCKS = 16
"""Maximum number of small blocks that a multiprocessor runs at once: their registers fill it."""


class Segments(NamedTuple):
    """G segments of B sequences; segments may be empty.

    starts: int64 (G,) first tokens. lengths: int32 (G,). is_start: int32 (G,), whether the segment
    starts its sequence. firsts: int64 (B,), the first segment of each sequence. counts: int32 (B,),
    the number of its segments.
    """

    starts: Array
    lengths: Array
    is_start: Array
    firsts: Array
    counts: Array


def segment_length(batch: Batch) -> int:
    """Return the best length of segments, or 0 if whole sequences are faster.

    A sequence of L tokens in c segments takes the time of 2 L / c + c tokens in a row: a scan of
    all segments from each tag, then a scan over segments, then another scan of all segments. The
    first scan takes c T blocks.
    """
    if batch.n == 0:
        return 0
    length = batch.n / batch.size
    blocks = min(BLOCKS, batch.blocks_at_once(8 * batch.scan_memory()[1]))
    at_once = blocks * batch.device.multiprocessors / (batch.size * batch.tags)
    count = int(min((2 * length) ** 0.5, at_once))
    if count < 2 or length < 2 * (2 * length / count + count):
        return 0
    return -(-batch.n // (batch.size * count))


def cut(batch: Batch, length: int) -> Segments:
    """Cut sequences into segments of at most `length` tokens.

    G is the largest number that the shapes allow, so nothing waits for the lengths.
    """
    xp = batch.xp
    counts = xp.maximum(-(-batch.lengths // length), 1).astype("int32")
    stops = counts.cumsum(dtype="int64")
    firsts = stops - counts
    segments = xp.arange(batch.n // length + batch.size)
    sequences = xp.searchsorted(stops, segments, side="right").clip(max=batch.size - 1)
    offsets = (segments - firsts[sequences]) * length
    lengths = (batch.lengths[sequences] - offsets).clip(0, length).astype("int32")
    is_start = (offsets == 0).astype("int32")
    return Segments(batch.starts[sequences] + offsets, lengths, is_start, firsts, counts)
