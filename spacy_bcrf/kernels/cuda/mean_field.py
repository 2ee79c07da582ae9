"""Mean field on a GPU, and its loss back-propagated through the updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from spacy_bcrf.kernels import Array, Result

from .batch import Batch
from .bregman import PRODUCT_TAGS
from .memory import within_memory


@within_memory
def mean_field(xp: Any, unary: Array, transitions: Array, lengths: Array, n_iter: int) -> Result:
    chain = _MeanField(Batch(xp, unary, transitions, lengths))
    r, last = chain.update(None), None
    for k in range(n_iter):
        r, last = chain.update(r, costs=k == n_iter - 1, out=last), r
    node = chain.expect(r)
    return Result(chain.totals(), node, None)


@within_memory
def mean_field_loss(
    xp: Any, unary: Array, transitions: Array, lengths: Array, gold: Array, n_iter: int
) -> Result:
    chain = _MeanField(Batch(xp, unary, transitions, lengths))
    gold = xp.ascontiguousarray(gold, dtype="int32")
    n, tags = unary.shape
    # Iterates, and the gradients by the logits of the one after each.
    r = chain.batch.empty(n_iter + 1, n, tags)
    deltas = chain.batch.empty(n_iter + 1, n, tags)
    chain.update(None, out=r[0])
    for k in range(1, n_iter + 1):
        chain.update(r[k - 1], out=r[k], costs=k == n_iter, gold=gold)
    node = chain.begin_back(r[n_iter], gold, deltas[n_iter - 1])
    for k in range(n_iter - 1, -1, -1):
        # The last one, before all updates, has a place that no edge reads.
        chain.back(r[k], deltas[k], deltas[k - 1 if k else n_iter], node)
    edge = chain.edges(r[:n_iter], deltas[:n_iter])
    return Result(chain.totals(), node, xp.where(transitions > -xp.inf, edge, 0))


class _MeanField:
    def __init__(self, batch: Batch) -> None:
        xp, self.batch = batch.xp, batch
        zero = batch.unary.dtype.type(0)
        self.w = xp.where(batch.transitions == -xp.inf, zero, batch.transitions)
        self.failed = batch.zeros(batch.size, dtype="int32")
        self.costs = batch.zeros(batch.n, dtype="float64")
        self.where = batch.segment_ids, batch.starts, batch.lengths
        self.sizes = batch.tags, batch.stride

    def update(
        self,
        r: Array | None,
        out: Array | None = None,
        costs: bool = False,
        gold: Array | None = None,
    ) -> Array:
        """The tag distributions (N, T) after r, at first those without neighbours."""
        batch = self.batch
        out = batch.empty(batch.n, batch.tags) if out is None else out
        before, after = (None, None) if r is None else self._products(r)
        self._launch(
            *("update", batch.unary, self.w, r, before, after, *self.where, out, gold),
            *(self.costs if costs else None, self.failed, *self.sizes),
            doubles=batch.tags,
        )
        return out

    def expect(self, r: Array) -> Array:
        """The marginals, r but for sequences without an allowed labeling; completes the costs."""
        before, _ = self._products(r)
        self._launch(
            *("expect", self.batch.unary, self.w, before, *self.where[:2], r, self.costs),
            *self.sizes,
        )
        return self.batch.xp.where((self.failed == 0)[self.batch.segment_ids][:, None], r, 0)

    def begin_back(self, r: Array, gold: Array, delta: Array) -> Array:
        """The gradient by the unary scores, as far as it is that of the last logits, `delta`."""
        node = self.batch.empty(self.batch.n, self.batch.tags)
        args = r, gold, self.batch.segment_ids, self.failed, delta, node, self.batch.tags
        self._launch("begin_back", *args)
        return node

    def back(self, r: Array, delta: Array, out: Array, node: Array) -> None:
        before, after = self._products(delta)
        self._launch(
            *("back", self.w, r, delta, before, after, *self.where, out, node, *self.sizes),
            doubles=self.batch.tags,
        )

    def edges(self, r: Array, deltas: Array) -> Array:
        """Gradient by the transitions."""
        batch = self.batch
        if not batch.shared:
            each = batch.empty(batch.n, batch.tags, batch.tags)
            sizes = len(r), np.int64(batch.n), batch.tags
            threads = min(batch.tags**2, 256)
            self._launch("edges", r, deltas, *self.where, each, *sizes, threads=threads)
            return each
        inner = (batch.segment_ids[:-1] == batch.segment_ids[1:])[:, None]
        heads_r, heads_d = ((x[:, :-1] * inner).reshape(-1, batch.tags) for x in (r, deltas))
        tails_r, tails_d = (x[:, 1:].reshape(-1, batch.tags) for x in (r, deltas))
        return heads_r.T @ tails_d + heads_d.T @ tails_r

    def totals(self) -> Array:
        batch = self.batch
        value = batch.empty(batch.size)
        batch.launch(
            *("mean_field", "totals", batch.size, self.costs, batch.starts, batch.lengths),
            *(self.failed, value),
            threads=256,
        )
        return value

    def _products(self, x: Array) -> tuple[Array | None, Array | None]:
        if self.batch.shared and self.batch.tags >= PRODUCT_TAGS:
            return x @ self.w, self.batch.xp.ascontiguousarray(x @ self.w.T)
        return None, None

    def _launch(self, kernel: str, *args: Any, **options: Any) -> None:
        self.batch.launch("mean_field", kernel, self.batch.n, *args, **options)
