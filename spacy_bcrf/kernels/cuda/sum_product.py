"""Forward-backward of the CRF on a GPU, and what else is read off its marginals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacy_bcrf.kernels import Array, Edges, Result

from .batch import Batch
from .memory import within_memory
from .segments import Segments, cut, segment_length


class Exponentials(NamedTuple):
    """exp(scores - the largest), what was subtracted and what is the lowest logarithm, float64, of
    each token (N, T) and of transitions (1, T, T) or (N, T, T)."""

    emission: Array
    emission_shifts: Array
    emission_lows: Array
    matrices: Array
    matrix_shifts: Array
    matrix_lows: Array


def exponentials(batch: Batch, scale: float = 1.0, real: Any = None) -> Exponentials:
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
    xp: Any, unary: Array, transitions: Array, lengths: Array, edges: Edges, marginals: bool
) -> Result:
    chain = ForwardBackward(Batch(xp, unary, transitions, lengths), marginals)
    each = chain.arcs() if edges == "each" else None
    sums = chain.batch.zeros(*2 * [chain.batch.tags], dtype="float64") if edges == "sum" else None
    value = chain.conclude(each=each, sums=sums)
    if sums is not None:
        return Result(value, chain.node, chain.arc_sums(sums))
    return Result(value, chain.node, each)


@within_memory
def entropy(xp: Any, unary: Array, transitions: Array, lengths: Array) -> Array:
    chain = ForwardBackward(Batch(xp, unary, transitions, lengths), True, shifts=False)
    chain.add_costs()
    return chain.conclude(entropies=True)


@within_memory
def pair_marginals(
    xp: Any, unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    chain = ForwardBackward(Batch(xp, unary, transitions, lengths), True)
    heads, tails = (xp.ascontiguousarray(tags, dtype="int32") for tags in (heads, tails))
    pairs = chain.pairs(heads, tails)
    chain.conclude(pairs=pairs, heads=heads, tails=tails)
    return chain.node, pairs


class ForwardBackward:
    """Both passes, and the marginals of tags; `conclude` has to be called after all that is read
    off the passes, for it does the sequences again that need more range."""

    def __init__(self, batch: Batch, marginals: bool, shifts: bool = True) -> None:
        self.batch = batch
        n, tags = batch.unary.shape
        self.node = batch.empty(n, tags) if marginals else None
        self._exp = exponentials(batch)
        self._left, self._right = batch.empty(n, tags), batch.empty(n, tags)
        self._logs = batch.empty(n, dtype="float64")
        self._failed = batch.zeros(batch.size, dtype="int32")
        self._walk()
        exp = self._exp
        batch.launch(
            *("sum_product", "posteriors", n),
            *(exp.emission, self._left, self._right),
            *((exp.emission_shifts, exp.matrix_shifts) if shifts else (None, None)),
            *(batch.segment_ids, batch.starts, batch.lengths, self.node, self._logs, self._failed),
            *(tags, int(batch.shared)),
        )

    def _walk(self) -> None:
        batch, exp = self.batch, self._exp
        staged, doubles = batch.walk_memory()
        segments, bounds, opens = batch.longest_first, None, None
        if length := segment_length(batch):
            parts = cut(batch, length)
            segments, opens = (parts.starts, parts.lengths), parts.opens
            bounds = self._join(parts)
        batch.launch(
            *("sum_product", "passes", (len(segments[0]), 2), exp.emission, exp.matrices),
            *(*segments, bounds, opens, self._left, self._right),
            *(batch.tags, batch.stride, int(staged)),
            doubles=doubles,
        )

    def _join(self, parts: Segments) -> Array:
        """(2, G, T) the weights at the bounds of segments, forwards and backwards."""
        batch, exp = self.batch, self._exp
        size, tags = len(parts.starts), batch.tags
        staged, doubles = batch.walk_memory()
        rows = batch.zeros(size, tags, tags)
        scales = batch.zeros(size, tags, dtype="float64")
        identity = batch.xp.eye(tags, dtype=rows.dtype)
        batch.launch(
            *("sum_product", "transfers", (size, tags), exp.emission, exp.matrices),
            *(parts.starts, parts.lengths, parts.opens, identity, rows, scales),
            *(tags, batch.stride, int(staged)),
            doubles=doubles,
        )
        bounds = batch.zeros(2, size, tags)
        batch.launch(
            *("sum_product", "join", (batch.size, 2), rows, scales, parts.firsts, parts.counts),
            *(bounds, size, tags),
            doubles=2 * tags,
        )
        return bounds

    def arcs(self) -> Array:
        """(N, T, T) marginals of edges."""
        batch = self.batch
        each = batch.empty(batch.n, batch.tags, batch.tags)
        args = self._left, self._right, self._exp.matrices, each, batch.tags, batch.stride
        batch.launch("sum_product", "arcs", batch.n, *args, threads=min(batch.tags**2, 256))
        return each

    def arc_sums(self, sums: Array) -> Array:
        """(T, T) sums of them over edges that share transitions, with what `conclude` found."""
        products = self._left[:-1].T @ self._right[1:]
        return (self._exp.matrices * products + sums).astype(self._left.dtype)

    def pairs(self, heads: Array, tails: Array) -> Array:
        batch = self.batch
        out = batch.empty(batch.n, len(heads))
        args = self._left, self._right, self._exp.matrices, heads, tails, out
        sizes = len(heads), batch.tags, batch.stride
        batch.launch("sum_product", "pairs", batch.n, *args, *sizes, threads=len(heads))
        return out

    def add_costs(self) -> None:
        """Make the values entropies."""
        batch, exp = self.batch, self._exp
        batch.launch(
            *("sum_product", "costs", batch.n),
            *(batch.unary, batch.transitions, self._left, self._right, exp.matrices),
            *(exp.emission_shifts, exp.matrix_shifts, self.node, self._logs),
            *(batch.tags, batch.stride),
            threads=min(batch.tags**2, 256),
        )

    def conclude(
        self,
        each: Array | None = None,
        sums: Array | None = None,
        pairs: Array | None = None,
        heads: Array | None = None,
        tails: Array | None = None,
        entropies: bool = False,
    ) -> Array:
        """Values (B,): log Z, or entropies."""
        batch = self.batch
        value = batch.empty(batch.size)
        batch.launch(
            *("log_space", "conclude", batch.size),
            *(batch.unary, batch.transitions, batch.starts, batch.lengths, self._failed),
            *(self._logs, batch.empty(batch.n, batch.tags, dtype="float64")),
            *(self._left, self._right, value, self.node, each, sums, pairs, heads, tails),
            *(0 if pairs is None else pairs.shape[1], batch.tags, batch.stride, int(entropies)),
            doubles=2 * batch.tags,
        )
        return value
