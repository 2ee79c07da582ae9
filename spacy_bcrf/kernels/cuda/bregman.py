"""Iterative Bregman projections on a GPU: all tokens of one parity at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from spacy_bcrf.kernels import Array, BregmanOptions, Edges, Result

from .batch import Batch
from .memory import within_memory
from .sum_product import exponentials

ROUNDS = 3
"""Of looking for tags without a neighbour before sequences are gone through from end to end."""

PRODUCT_TAGS = 64
"""From so many tags on, products with shared transitions are matrix products of a library."""


@within_memory
def bregman(
    xp: Any,
    unary: Array,
    transitions: Array,
    lengths: Array,
    options: BregmanOptions,
    edges: Edges,
) -> Result:
    return _Projections(Batch(xp, unary, transitions, lengths), options).run(edges)


class _Projections:
    """f and g of all tokens, those at even places of their sequences first."""

    def __init__(self, batch: Batch, options: BregmanOptions) -> None:
        xp = batch.xp
        self.batch, self.options = batch, options
        # Sharpened scores span more than single precision holds.
        self.real = np.dtype("float64" if options.scale > 1 else batch.unary.dtype)
        self.exp = exponentials(batch, options.scale, self.real)
        n, tags = batch.unary.shape
        # As many even places as there may be: how many there are, only the device knows.
        self.n_even, n_odd = (n + batch.size) // 2, n // 2
        even = (xp.arange(n) - batch.starts[batch.segment_ids]) % 2 == 0
        ranks = xp.where(even, even.cumsum() - 1, self.n_even + (~even).cumsum() - 1)
        self.slots = ranks.astype("int32")
        shape = (self.n_even + n_odd, tags)
        self.f, self.g = (batch.zeros(*shape, dtype=self.real) for _ in range(2))
        self.failed = batch.zeros(batch.size, dtype="int32")
        self.by_product = batch.shared and tags >= PRODUCT_TAGS
        self.before: Any = None
        self.after: Any = None
        if self.by_product:
            self.before, self.after = (batch.zeros(*shape, dtype=self.real) for _ in range(2))
        self._start()

    def run(self, edges: Edges) -> Result:
        self._iterate()
        batch, exp, options = self.batch, self.exp, self.options
        n, tags = batch.unary.shape
        node, logs = batch.empty(n, tags), batch.empty(n, dtype="float64")
        left, right = (
            None if edges == "none" else batch.empty(n, tags, dtype=self.real) for _ in range(2)
        )
        lower = int(options.bound == "lower")
        self._multiply(0)
        self._multiply(1)
        self._launch(
            *("finish", n, exp.emission, exp.matrices, exp.emission_shifts, exp.matrix_shifts),
            *(batch.segment_ids, self.slots, batch.starts, batch.lengths, self.before, self.after),
            *(self.f, self.g, node, left, right, logs, self.failed, lower, tags, batch.stride),
            doubles=tags,
        )
        if lower:
            self._launch(
                *("feasible", batch.size, exp.emission, exp.matrices, self.slots, batch.starts),
                *(batch.lengths, self.f, self.g, self.failed, logs, tags, batch.stride),
                doubles=2 * tags,
            )
        each = sums = None
        if edges == "each":
            each = batch.empty(n, tags, tags)
            batch.launch(
                *("sum_product", "arcs", n, left, right, exp.matrices, each, tags, batch.stride),
                threads=min(tags**2, 256),
                real=self.real,
            )
        elif edges == "sum":
            sums = batch.zeros(tags, tags, dtype="float64")
        value = self._conclude(logs, left, right, node, each, sums, lower)
        if sums is not None:
            assert left is not None and right is not None
            products = exp.matrices * (left[:-1].T @ right[1:])
            return Result(value, node, (products + sums).astype(node.dtype))
        return Result(value, node, each)

    def _start(self) -> None:
        """Prune tags that no allowed labeling uses, and set f and g."""
        batch, exp = self.batch, self.exp
        sizes = batch.tags, batch.stride
        before = None
        for _ in range(ROUNDS):
            changed = batch.zeros(batch.size, dtype="int32")
            self._launch(
                *("support", batch.n, exp.emission, exp.matrices, batch.segment_ids, batch.starts),
                *(batch.lengths, before, changed, *sizes),
            )
            before = changed
        self._launch(
            *("prune", batch.size, exp.emission, exp.matrices, batch.starts, batch.lengths),
            *(before, *sizes),
        )
        self._launch(
            *(
                "begin",
                batch.n,
                exp.emission,
                exp.emission_lows,
                exp.matrix_lows,
                batch.segment_ids,
            ),
            *(self.slots, batch.starts, batch.lengths, self.f, self.g, self.failed),
            *(batch.tags, int(batch.shared)),
        )

    def _iterate(self) -> None:
        batch, options = self.batch, self.options
        watched = options.relaxation is None or options.tolerance is not None
        excess = 0.0
        omegas = violations = last = done = None
        if watched:
            omegas = batch.xp.ones(batch.size)
            last = batch.zeros(batch.size, dtype="float64")
            violations = batch.zeros(batch.size, dtype="int64")
            done = batch.zeros(batch.size, dtype="int32")
        for iteration in range(options.n_iter):
            for odd in (1, 0):
                # What arrives at tokens of one parity comes from those of the other.
                self._multiply(1 - odd)
                self._launch(
                    *("project", -(-batch.n // 2), self.exp.emission, self.exp.matrices),
                    *(batch.segment_ids, self.slots, batch.starts, batch.lengths),
                    *(self.before, self.after, self.f, self.g, self.failed, excess, omegas),
                    *(violations, done, odd, np.int64(batch.n), batch.tags, batch.stride),
                    doubles=2 * batch.tags,
                )
            # The first projection is plain: relaxing needs arcs that sum to one.
            excess = (options.relaxation or 1.0) - 1.0
            if watched:
                tolerance = -1.0 if options.tolerance is None else float(options.tolerance)
                self._launch(
                    *("relax", -(-batch.size // 128), violations, last, omegas, done, batch.size),
                    *(int(iteration == 0), float(options.relaxation or 0), tolerance),
                    threads=128,
                )

    def _multiply(self, odd: int) -> None:
        """What tokens of one parity send to both sides, if by matrix products."""
        if self.by_product:
            rows = slice(self.n_even, None) if odd else slice(0, self.n_even)
            xp, matrix = self.batch.xp, self.exp.matrices
            xp.matmul(self.g[rows], matrix, out=self.before[rows])
            xp.matmul(self.f[rows], matrix.T, out=self.after[rows])

    def _conclude(
        self,
        logs: Array,
        left: Array | None,
        right: Array | None,
        node: Array,
        each: Array | None,
        sums: Array | None,
        lower: int,
    ) -> Array:
        batch, options = self.batch, self.options
        value = batch.empty(batch.size)
        tolerance = -1.0 if options.tolerance is None else float(options.tolerance)
        batch.launch(
            *("log_space_bregman", "conclude", batch.size, batch.unary, batch.transitions),
            *(batch.starts, batch.lengths, self.failed, logs),
            *(self.exp.emission_shifts, self.exp.matrix_shifts),
            *(batch.empty(3, batch.n, batch.tags, dtype="float64"), left, right),
            *(value, node, each, sums, options.n_iter, float(options.relaxation or 0)),
            *(tolerance, lower, float(options.scale), np.int64(batch.n), batch.tags, batch.stride),
            doubles=2 * batch.tags,
            real=self.real,
        )
        return value

    def _launch(self, kernel: str, grid: int, *args: Any, **options: Any) -> None:
        self.batch.launch("bregman", kernel, grid, *args, real=self.real, **options)
