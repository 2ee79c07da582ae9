"""Iterative Bregman projections on a GPU, all tokens of one parity at once."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from spacy_bcrf.kernels.backend import UNARIES, Array, BregmanOptions, Edges, Result

from . import whole
from .batch import Batch
from .memory import within_memory
from .sum_product import exponentials

LOCAL_PRUNINGS = 3
"""Parallel rounds that prune tags without a neighbor, before a scan prunes the other sequences."""

CUBLAS_TAGS = 64
"""Use cuBLAS for messages through shared transitions from this many tags."""


@within_memory
def bregman(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    options: BregmanOptions,
    edges: Edges,
) -> Result:
    batch, real = Batch(xp, unary, transitions, lengths), inner_dtype(unary, options)
    if whole.is_whole(batch, real):
        return whole.bregman(batch, options, edges, real)
    return _Projections(batch, options, real).run(edges)


@within_memory
def bregman_loss(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    gold: Array,
    options: BregmanOptions,
) -> Result | None:
    batch, real = Batch(xp, unary, transitions, lengths), inner_dtype(unary, options)
    if not whole.is_whole(batch, real):
        return None
    return whole.bregman(batch, options, "sum" if batch.shared else "each", real, gold)


def inner_dtype(unary: Array, options: BregmanOptions) -> np.dtype:
    """Return the dtype of the projections. Sharpened scores exceed the range of float32."""
    return np.dtype("float64" if options.scale > 1 else unary.dtype)


class _Projections:
    """The factors f and g of all tokens, first of tokens at even positions in their sequences."""

    def __init__(self, batch: Batch, options: BregmanOptions, real: np.dtype) -> None:
        xp = batch.xp
        self.batch, self.options = batch, options
        self.relaxation = float(options.relaxation or 0)  # 0: estimate it
        self.tolerance = -1.0 if options.tolerance is None else float(options.tolerance)
        self.rule = UNARIES.index(options.unary)
        self.lower = int(options.bound == "lower")
        self.real = real
        self.exp = exponentials(batch, options.scale, self.real)
        matrices = self.exp.matrices
        self.transposed = xp.ascontiguousarray(matrices.T) if batch.shared else None
        n, tags = batch.unary.shape
        # Rows for the most even positions there can be: only the device knows their number.
        self.n_even, n_odd = (n + batch.size) // 2, n // 2
        even = (xp.arange(n) - batch.starts[batch.segment_ids]) % 2 == 0
        rows = xp.where(even, even.cumsum() - 1, self.n_even + (~even).cumsum() - 1)
        self.rows = rows.astype("int32")
        shape = self.n_even + n_odd, tags
        self.f, self.g = (batch.zeros(*shape, dtype=self.real) for _ in range(2))
        self.failed = batch.zeros(batch.size, dtype="int32")
        self.messages_in: Array | None = None
        self.messages_out: Array | None = None
        if batch.shared and tags >= CUBLAS_TAGS:
            self.messages_in, self.messages_out = (
                batch.zeros(*shape, dtype=self.real) for _ in range(2)
            )
        self._initialize()

    def run(self, edges: Edges) -> Result:
        """Project, and return the bound of B(w) and its gradient."""
        self._iterate()
        batch, exp = self.batch, self.exp
        n, tags = batch.unary.shape
        unary, logs = batch.empty(n, tags), batch.empty(n, dtype="float64")
        left, right = (
            None if edges == "none" else batch.empty(n, tags, dtype=self.real) for _ in range(2)
        )
        self._multiply(0)
        self._multiply(1)
        self._launch(
            *("finish", n, exp.emission, exp.matrices, self.transposed),
            *(exp.shifts, exp.edge_shifts),
            *(batch.segment_ids, self.rows, batch.starts, batch.lengths),
            *(self.messages_in, self.messages_out, self.f, self.g, unary, left, right, logs),
            *(self.failed, self.rule, self.lower, tags, batch.stride),
            doubles=2 * tags,
        )
        if self.lower:
            self._launch(
                *("add_lower_bound", batch.size, exp.emission, exp.matrices),
                *(self.transposed, self.rows),
                *(batch.starts, batch.lengths, self.f, self.g, self.failed, logs),
                *(tags, batch.stride),
                doubles=2 * tags,
            )
        each = sums = None
        if edges == "each":
            each = batch.empty(n, tags, tags)
            batch.launch(
                *("sum_product", "edge_marginals", n, left, right, exp.matrices, each),
                *(tags, batch.stride),
                threads=min(tags**2, 256),
                real=self.real,
            )
        elif edges == "sum":
            sums = batch.zeros(tags, tags, dtype="float64")
        value = self._values(logs, left, right, unary, each, sums)
        if sums is not None:
            assert left is not None and right is not None
            products = exp.matrices * (left[:-1].T @ right[1:])
            return Result(value, unary, (products + sums).astype(unary.dtype))
        return Result(value, unary, each)

    def _initialize(self) -> None:
        """Prune tags that no allowed labeling uses, and set the first f and g."""
        batch, exp = self.batch, self.exp
        sizes = batch.tags, batch.stride
        previous = None
        for _ in range(LOCAL_PRUNINGS):
            changed = batch.zeros(batch.size, dtype="int32")
            self._launch(
                *("prune_locally", batch.n, exp.emission, exp.matrices, batch.segment_ids),
                *(batch.starts, batch.lengths, previous, changed, *sizes),
            )
            previous = changed
        self._launch(
            *("prune", batch.size, exp.emission, exp.matrices, batch.starts, batch.lengths),
            *(previous, *sizes),
        )
        self._launch(
            *("initialize", batch.n, exp.emission, exp.lows, exp.edge_lows, batch.segment_ids),
            *(self.rows, batch.starts, batch.lengths, self.f, self.g, self.failed),
            *(batch.tags, int(batch.shared)),
        )

    def _iterate(self) -> None:
        batch, options = self.batch, self.options
        excess = 0.0
        omegas = violations = sweeps = latest = done = None
        if options.relaxation is None or options.tolerance is not None:
            omegas = batch.xp.ones(batch.size)
            sweeps = batch.zeros(batch.size, dtype="float64")
            latest = -batch.xp.ones(batch.size)
            violations = batch.zeros(batch.size, dtype="int64")
            done = batch.zeros(batch.size, dtype="int32")
        for iteration in range(options.n_iter):
            # The positions 2, 4, .. come first.
            odd = iteration % 2
            # Messages to tokens of one parity come from the other parity.
            self._multiply(1 - odd)
            self._launch(
                *("project", -(-batch.n // 2), self.exp.emission, self.exp.matrices),
                *(self.transposed, batch.segment_ids, self.rows, batch.starts, batch.lengths),
                *(self.messages_in, self.messages_out, self.f, self.g, self.failed, excess),
                *(omegas, violations, done, odd, np.int64(batch.n), batch.tags, batch.stride),
                doubles=2 * batch.tags,
            )
            # The first sweep is plain, because over-relaxation needs normalized arcs.
            if odd:
                excess = (options.relaxation or 1.0) - 1.0
            if omegas is not None:
                self._launch(
                    *("update_relaxation", -(-batch.size // 128), violations, omegas, sweeps),
                    *(latest, done, batch.size, iteration, self.relaxation, self.tolerance),
                    threads=128,
                )

    def _multiply(self, odd: int) -> None:
        """Compute the messages from tokens of one parity by matrix products, if they are stored."""
        if self.messages_in is not None and self.messages_out is not None:
            rows = slice(self.n_even, None) if odd else slice(0, self.n_even)
            xp, matrix = self.batch.xp, self.exp.matrices
            xp.matmul(self.g[rows], matrix, out=self.messages_in[rows])
            xp.matmul(self.f[rows], matrix.T, out=self.messages_out[rows])

    def _values(
        self,
        logs: Array,
        left: Array | None,
        right: Array | None,
        unary: Array,
        each: Array | None,
        sums: Array | None,
    ) -> Array:
        """Return the values (B,). Compute failed sequences again in log space."""
        batch, options = self.batch, self.options
        value = batch.empty(batch.size)
        batch.launch(
            *("log_space_bregman", "values", batch.size, batch.unary, batch.transitions),
            *(batch.starts, batch.lengths, self.failed, logs),
            *(self.exp.shifts, self.exp.edge_shifts),
            *(batch.empty(3, batch.n, batch.tags, dtype="float64"), left, right),
            *(value, unary, each, sums, options.n_iter, self.relaxation, self.tolerance),
            *(
                self.rule,
                self.lower,
                float(options.scale),
                np.int64(batch.n),
                batch.tags,
                batch.stride,
            ),
            doubles=2 * batch.tags,
            real=self.real,
        )
        return value

    def _launch(self, kernel: str, grid: int, *args: Any, **options: Any) -> None:
        self.batch.launch("bregman", kernel, grid, *args, real=self.real, **options)
