"""Chunks of few, long sequences, so that more of the GPU works on them."""

from __future__ import annotations

from typing import NamedTuple

from spacy_bcrf.kernels.backend import Array

from .batch import Batch

BLOCKS = 16
"""Maximum number of small blocks that a multiprocessor runs at once: their registers fill it."""


class Chunks(NamedTuple):
    """G chunks of B sequences. Each is a tile: one block runs a recursion on it.

    Sequence b has counts[b] chunks from firsts[b] on. The chunks after the last one are empty. All
    are None if the tiles are whole sequences.

    starts: int64 (G,) first tokens. lengths: int32 (G,). sequences: int32 (G,). firsts: int64 (B,).
    counts: int32 (B,).
    """

    starts: Array = None
    lengths: Array = None
    sequences: Array = None
    firsts: Array = None
    counts: Array = None


def chunk_length(batch: Batch) -> int:
    """Return the best length of chunks, or 0 if whole sequences are faster.

    A sequence of L tokens in c chunks takes the time of 2 L / c + c tokens in a row: a scan of
    all chunks from each tag, then a scan over chunks, then another scan of all chunks, which
    `forward_backward` does both ways. The first scan takes c T blocks.
    """
    if batch.n == 0:
        return 0
    length = batch.n / batch.size
    blocks = min(BLOCKS, batch.blocks_at_once(8 * 3 * batch.tags))
    at_once = blocks * batch.device.multiprocessors / (batch.size * batch.tags)
    count = int(min((2 * length) ** 0.5, at_once))
    if count < 2 or length < 2 * (2 * length / count + count):
        return 0
    return -(-batch.n // (batch.size * count))


def cut(batch: Batch, length: int) -> Chunks:
    """Cut sequences into chunks of at most `length` tokens.

    G is the largest number that the shapes allow, so nothing waits for the lengths.
    """
    xp = batch.xp
    counts = xp.maximum(-(-batch.lengths // length), 1).astype("int32")
    stops = counts.cumsum(dtype="int64")
    firsts = stops - counts
    chunks = xp.arange(batch.n // length + batch.size)
    sequences = xp.searchsorted(stops, chunks, side="right").clip(max=batch.size - 1)
    offsets = (chunks - firsts[sequences]) * length
    lengths = (batch.lengths[sequences] - offsets).clip(0, length).astype("int32")
    starts = batch.starts[sequences] + offsets
    return Chunks(starts, lengths, sequences.astype("int32"), firsts, counts)
