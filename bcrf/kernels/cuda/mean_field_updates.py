"""Mean field on a GPU, and its loss with back-propagation through the updates."""

from types import ModuleType
from typing import Any

import numpy as np

from bcrf.kernels.backend import Array, Result

from .gpu_batch import Batch
from .memory import within_memory


@within_memory
def mean_field(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n_iter: int
) -> Result:
    chain = _MeanField(Batch(xp, unary, transitions, lengths))
    r, spare = chain.update(None), None
    for k in range(n_iter):
        r, spare = chain.update(r, terms=k == n_iter - 1, out=spare), r
    marginals = chain.add_expected_scores(r)
    return Result(chain.values(), marginals, None)


@within_memory
def mean_field_loss(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    gold: Array,
    n_iter: int,
) -> Result:
    chain = _MeanField(Batch(xp, unary, transitions, lengths))
    gold = xp.ascontiguousarray(gold, dtype="int32")
    n, tags = unary.shape
    # deltas[k]: the gradient of the logits of iterate k + 1. The last row belongs to iterate 0,
    # whose logits depend on no transition.
    r = chain.batch.empty(n_iter + 1, n, tags)
    deltas = chain.batch.empty(n_iter + 1, n, tags)
    chain.update(None, out=r[0])
    for k in range(1, n_iter + 1):
        chain.update(r[k - 1], out=r[k], terms=k == n_iter, gold=gold)
    gradient = chain.start_backward(r[n_iter], gold, deltas[n_iter - 1])
    for k in range(n_iter - 1, -1, -1):
        chain.backward(r[k], deltas[k], deltas[k - 1 if k else n_iter], gradient)
    edges = chain.edge_gradients(r[:n_iter], deltas[:n_iter])
    return Result(chain.values(), gradient, xp.where(transitions > -xp.inf, edges, 0))


class _MeanField:
    """Updates of the tag distributions r (N, T), and their backward pass."""

    def __init__(self, batch: Batch) -> None:
        xp, self.batch = batch.xp, batch
        zero = batch.unary.dtype.type(0)
        self.w = xp.where(batch.transitions == -xp.inf, zero, batch.transitions)
        self.transposed = xp.ascontiguousarray(self.w.T) if batch.shared else None
        self.failed = batch.zeros(batch.size, dtype="int32")
        self.terms = batch.zeros(batch.n, dtype="float64")
        self.tokens = batch.sequence_ids, batch.starts, batch.lengths
        self.sizes = batch.tags, batch.stride

    def update(
        self,
        r: Array | None,
        out: Array | None = None,
        terms: bool = False,
        gold: Array | None = None,
    ) -> Array:
        """Return the distributions after r, or without neighbors if r is None.

        terms: whether to set each token's term of the value: the negative log-likelihood of gold,
        or the entropy.
        """
        batch = self.batch
        out = batch.empty(batch.n, batch.tags) if out is None else out
        self._launch(
            *("update", batch.unary, self.w, self.transposed, r),
            *(*self.tokens, out, gold, self.terms if terms else None, self.failed, *self.sizes),
            doubles=batch.tags,
        )
        return out

    def add_expected_scores(self, r: Array) -> Array:
        """Complete the terms. Return the marginals: r, but 0 in infeasible sequences."""
        self._launch(
            *("add_expected_scores", self.batch.unary, self.w, *self.tokens[:2]),
            *(r, self.terms, *self.sizes),
        )
        return self.batch.xp.where((self.failed == 0)[self.batch.sequence_ids][:, None], r, 0)

    def start_backward(self, r: Array, gold: Array, delta: Array) -> Array:
        """Set `delta`, the gradient of the last logits. Return the gradient of the unary scores.

        `backward` adds to the returned gradient.
        """
        gradient = self.batch.empty(self.batch.n, self.batch.tags)
        args = r, gold, self.batch.sequence_ids, self.failed, delta, gradient, self.batch.tags
        self._launch("start_backward", *args)
        return gradient

    def backward(self, r: Array, delta: Array, out: Array, gradient: Array) -> None:
        """Set `out`, the gradient of the logits of r, from `delta`, the gradient of the next."""
        self._launch(
            *("backward", self.w, self.transposed, r, delta),
            *(*self.tokens, out, gradient, *self.sizes),
            doubles=self.batch.tags,
        )

    def edge_gradients(self, r: Array, deltas: Array) -> Array:
        """Return the gradient of the transitions, in their shape."""
        batch = self.batch
        if not batch.shared:
            each = batch.empty(batch.n, batch.tags, batch.tags)
            sizes = len(r), np.int64(batch.n), batch.tags
            threads = min(batch.tags**2, 256)
            self._launch("edge_gradients", r, deltas, *self.tokens, each, *sizes, threads=threads)
            return each
        inner = (batch.sequence_ids[:-1] == batch.sequence_ids[1:])[:, None]
        heads_r, heads_d = ((x[:, :-1] * inner).reshape(-1, batch.tags) for x in (r, deltas))
        tails_r, tails_d = (x[:, 1:].reshape(-1, batch.tags) for x in (r, deltas))
        return heads_r.T @ tails_d + heads_d.T @ tails_r

    def values(self) -> Array:
        """Return the sums of the terms of each sequence, (B,)."""
        batch = self.batch
        value = batch.empty(batch.size)
        batch.launch(
            *("mean_field", "values", batch.size, self.terms, batch.starts, batch.lengths),
            *(self.failed, value),
            threads=256,
        )
        return value

    def _launch(self, kernel: str, *args: Any, **options: Any) -> None:
        self.batch.launch("mean_field", kernel, self.batch.n, *args, **options)
