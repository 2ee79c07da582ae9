"""The forward-backward algorithm of the CRF on a GPU: log-partition, marginals and entropy."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from spacy_bcrf.kernels.backend import Array, Edges, Result

from . import whole
from .batch import Batch
from .memory import within_memory
from .segments import Segments, cut, segment_length


class Exponentials(NamedTuple):
    """Scores in probability space: exp(scores - maximum).

    emission (N, T) has a maximum for each token, matrices (T, T) or (N, T, T) one for each matrix.
    shifts, edge_shifts: the maxima. lows, edge_lows: the smallest finite logarithms. These four
    are float64, (N,) for tokens and (1,) or (N,) for transitions.
    """

    emission: Array
    shifts: Array
    lows: Array
    matrices: Array
    edge_shifts: Array
    edge_lows: Array


def exponentials(batch: Batch, scale: float = 1.0, real: Any = None) -> Exponentials:
    """Compute the exponentials of scale * scores, by default in the scores' dtype."""
    found: list[Array] = []
    for scores in (batch.unary, batch.transitions):
        columns = batch.tags if scores is batch.unary else batch.tags**2
        rows = scores.size // columns
        out = batch.empty(*scores.shape, dtype=real)
        shifts, lows = (batch.empty(rows, dtype="float64") for _ in range(2))
        batch.launch(
            *("sum_product", "exponentials", min(rows, 1 << 15)),
            *(scores, out, shifts, lows, np.int64(rows), np.int64(columns), scale),
            threads=min(columns, 256),
            real=real,
        )
        found += [out, shifts, lows]
    return Exponentials(*found)


@within_memory
def sum_product(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    edges: Edges,
    marginals: bool,
) -> Result:
    batch = Batch(xp, unary, transitions, lengths)
    if whole.is_whole(batch):
        return whole.sum_product(batch, edges, marginals)
    chain = _ForwardBackward(batch, marginals)
    each = chain.edge_marginals() if edges == "each" else None
    sums = chain.batch.zeros(*2 * [chain.batch.tags], dtype="float64") if edges == "sum" else None
    value = chain.values(each=each, sums=sums)
    if sums is not None:
        return Result(value, chain.marginals, chain.edge_sums(sums))
    return Result(value, chain.marginals, each)


@within_memory
def sum_product_loss(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, gold: Array
) -> Result | None:
    batch = Batch(xp, unary, transitions, lengths)
    if not whole.is_whole(batch):
        return None
    return whole.sum_product(batch, "sum" if batch.shared else "each", True, gold)


@within_memory
def entropy(xp: ModuleType, unary: Array, transitions: Array, lengths: Array) -> Array:
    chain = _ForwardBackward(Batch(xp, unary, transitions, lengths), True, shifts=False)
    chain.subtract_expected_scores()
    return chain.values(entropies=True)


@within_memory
def pair_marginals(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    chain = _ForwardBackward(Batch(xp, unary, transitions, lengths), True)
    heads, tails = (xp.ascontiguousarray(tags, dtype="int32") for tags in (heads, tails))
    pairs = chain.pair_marginals(heads, tails)
    chain.values(pairs=pairs, heads=heads, tails=tails)
    return chain.marginals, pairs


class _ForwardBackward:
    """The forward and the backward pass, and the tag marginals.

    Call `values` last: it computes again, in all results, the sequences that exceed the range of
    probability space.
    """

    def __init__(self, batch: Batch, marginals: bool, shifts: bool = True) -> None:
        """shifts: whether the values include the maxima of the scores.

        The log-partition includes them, the entropy does not.
        """
        self.batch = batch
        n, tags = batch.unary.shape
        self.marginals = batch.empty(n, tags) if marginals else None
        self._exp = exp = exponentials(batch)
        self._left, self._right = batch.empty(n, tags), batch.empty(n, tags)
        self._logs = batch.empty(n, dtype="float64")
        self._failed = batch.zeros(batch.size, dtype="int32")
        self._scan()
        batch.launch(
            *("sum_product", "tag_marginals", n, exp.emission, self._left, self._right),
            *((exp.shifts, exp.edge_shifts) if shifts else (None, None)),
            *(batch.segment_ids, batch.starts, batch.lengths, self.marginals, self._logs),
            *(self._failed, tags, int(batch.shared)),
        )

    def _scan(self) -> None:
        batch, exp = self.batch, self._exp
        cached, doubles = batch.scan_memory()
        segments, bounds, is_start = batch.longest_first, None, None
        if length := segment_length(batch):
            parts = cut(batch, length)
            segments, is_start = (parts.starts, parts.lengths), parts.is_start
            bounds = self._bounds(parts)
        batch.launch(
            *("sum_product", "forward_backward", (len(segments[0]), 2)),
            *(exp.emission, exp.matrices, *segments, bounds, is_start, self._left, self._right),
            *(batch.tags, batch.stride, int(cached)),
            doubles=doubles,
        )

    def _bounds(self, parts: Segments) -> Array:
        """Return the forward and the backward weights at the bounds of segments, (2, G, T)."""
        batch, exp = self.batch, self._exp
        size, tags = len(parts.starts), batch.tags
        cached, doubles = batch.scan_memory()
        rows = batch.zeros(size, tags, tags)
        scales = batch.zeros(size, tags, dtype="float64")
        identity = batch.xp.eye(tags, dtype=rows.dtype)
        batch.launch(
            *("sum_product", "segment_transfers", (size, tags), exp.emission, exp.matrices),
            *(parts.starts, parts.lengths, parts.is_start, identity, rows, scales),
            *(tags, batch.stride, int(cached)),
            doubles=doubles,
        )
        bounds = batch.zeros(2, size, tags)
        batch.launch(
            *("sum_product", "segment_bounds", (batch.size, 2), rows, scales),
            *(parts.firsts, parts.counts, bounds, size, tags),
            doubles=2 * tags,
        )
        return bounds

    def edge_marginals(self) -> Array:
        """Return the marginals of each edge, (N, T, T)."""
        batch = self.batch
        each = batch.empty(batch.n, batch.tags, batch.tags)
        args = self._left, self._right, self._exp.matrices, each, batch.tags, batch.stride
        threads = min(batch.tags**2, 256)
        batch.launch("sum_product", "edge_marginals", batch.n, *args, threads=threads)
        return each

    def edge_sums(self, sums: Array) -> Array:
        """Return the sum of the marginals of all edges, (T, T), for shared transitions.

        sums: the part from sequences that `values` has computed again.
        """
        products = self._left[:-1].T @ self._right[1:]
        return (self._exp.matrices * products + sums).astype(self._left.dtype)

    def pair_marginals(self, heads: Array, tails: Array) -> Array:
        """Return the marginals of pairs of neighboring tags, (N, M)."""
        batch = self.batch
        out = batch.empty(batch.n, len(heads))
        args = self._left, self._right, self._exp.matrices, heads, tails, out
        sizes = len(heads), batch.tags, batch.stride
        batch.launch("sum_product", "pair_marginals", batch.n, *args, *sizes, threads=len(heads))
        return out

    def subtract_expected_scores(self) -> None:
        """Turn the values from log-partitions into entropies."""
        batch, exp = self.batch, self._exp
        batch.launch(
            *("sum_product", "subtract_expected_scores", batch.n, batch.unary, batch.transitions),
            *(self._left, self._right, exp.matrices, exp.shifts, exp.edge_shifts),
            *(self.marginals, self._logs, batch.tags, batch.stride),
            threads=min(batch.tags**2, 256),
        )

    def values(
        self,
        each: Array | None = None,
        sums: Array | None = None,
        pairs: Array | None = None,
        heads: Array | None = None,
        tails: Array | None = None,
        entropies: bool = False,
    ) -> Array:
        """Return the values (B,), log-partitions or entropies.

        Compute failed sequences again in log space: overwrite their part of `each`, `pairs` and the
        tag marginals, and add their edge marginals to `sums`.
        """
        batch = self.batch
        value = batch.empty(batch.size)
        batch.launch(
            *("log_space", "values", batch.size),
            *(batch.unary, batch.transitions, batch.starts, batch.lengths, self._failed),
            *(self._logs, batch.empty(batch.n, batch.tags, dtype="float64")),
            *(self._left, self._right, value, self.marginals, each, sums, pairs, heads, tails),
            *(0 if pairs is None else pairs.shape[1], batch.tags, batch.stride, int(entropies)),
            doubles=2 * batch.tags,
        )
        return value
