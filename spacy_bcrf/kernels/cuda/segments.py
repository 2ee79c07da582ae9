"""Few, long sequences cut into segments, so that more of the GPU works on them."""

from __future__ import annotations

from typing import NamedTuple

from spacy_bcrf.kernels import Array

from .batch import Batch

BLOCKS = 16
"""That a multiprocessor runs side by side, of few threads."""


class Segments(NamedTuple):
    """G segments, some of them empty: first tokens int64, lengths int32, and whether they open
    their sequence int32, each (G,); and of each sequence its first segment int64 and how many it
    has int32, each (B,)."""

    starts: Array
    lengths: Array
    opens: Array
    firsts: Array
    counts: Array


def segment_length(batch: Batch) -> int:
    """How long segments should be, or 0 if sequences should be left whole.

    A sequence of L tokens in c segments takes the time of 2 L / c + c tokens, one after the other:
    all segments first from each tag, then from segment to segment, then all segments again. The
    first of these takes c T blocks.
    """
    if batch.n == 0:
        return 0
    length = batch.n / batch.size
    at_once = BLOCKS * batch.device.multiprocessors / (batch.size * batch.tags)
    count = int(min((2 * length) ** 0.5, at_once))
    if count < 2 or length < 2 * (2 * length / count + count):
        return 0
    return -(-batch.n // (batch.size * count))


def cut(batch: Batch, length: int) -> Segments:
    """Without asking the device for the lengths: as many segments as there may be."""
    xp = batch.xp
    counts = xp.maximum(-(-batch.lengths // length), 1).astype("int32")
    stops = counts.cumsum(dtype="int64")
    firsts = stops - counts
    segments = xp.arange(batch.n // length + batch.size)
    owners = xp.searchsorted(stops, segments, side="right").clip(max=batch.size - 1)
    ahead = (segments - firsts[owners]) * length
    lengths = (batch.lengths[owners] - ahead).clip(0, length).astype("int32")
    opens = (ahead == 0).astype("int32")
    return Segments(batch.starts[owners] + ahead, lengths, opens, firsts, counts)
