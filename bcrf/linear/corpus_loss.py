"""The loss of a corpus and its gradient with respect to the weights of a sparse linear chain."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, Constraints, Potentials
from bcrf.chain.potentials import boundaries

from .crfsuite_attributes import Batch, find_starts


class CorpusLoss:
    """Sum over all sequences of the losses of their known labels, by default -log p.

    T labels and A attributes have weights (T + 3 + A, stride), see `OnlineLearner.weights`.
    """

    def __init__(
        self,
        batch: Batch,
        gold: NDArray,
        sizes: tuple[int, int],
        constraints: Constraints | None = None,
        kept: NDArray[np.bool_] | None = None,
        objective: Any = CRF(),  # noqa: B008 (immutable)
    ) -> None:
        """gold: int32 (N,), -1 for unknown. sizes: T and A. kept: (T + 3 + A, T), the weights that
        learn; None lets all learn. objective: of `chain`.
        """
        self._objective = objective
        self._batch, self._gold, self._constraints, self._kept = batch, gold, constraints, kept
        self.n_tags, self.n_attributes = sizes
        self.stride = -(-self.n_tags // 8) * 8
        # The tokens of each attribute, and their values.
        order = batch.rows.argsort(kind="stable")
        tokens = np.repeat(np.arange(len(gold), dtype="int32"), np.diff(batch.starts))
        counts = np.bincount(batch.rows, minlength=self.n_attributes)
        values = None if batch.values is None else batch.values[order]
        size = np.array([self.n_attributes], "int32")
        self._transposed = Batch(tokens[order], find_starts(counts), values, size)
        self._first, self._last = boundaries(batch.lengths)

    def zeros(self) -> NDArray[np.float32]:
        """Return weights of 0."""
        return np.zeros((self.n_tags + 3 + self.n_attributes, self.stride), "float32")

    def __call__(self, weights: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
        """Return the loss, and its gradient of the weights' shape."""
        from bcrf.kernels.sparse import score_values

        n, general = self.n_tags, self.n_tags + 3
        unary = score_values(weights, n, *self._batch)
        transitions = weights[:n, :n].astype("float64")
        potentials = Potentials.unchecked(unary, transitions, self._batch.lengths)
        losses, slopes = self._objective.loss(potentials.constrain(self._constraints), self._gold)
        gradient = np.zeros_like(weights)
        gradient[:n, :n] = slopes.transitions
        gradient[n, :n] = slopes.unary.sum(axis=0)
        gradient[n + 1, :n] = slopes.unary[self._first].sum(axis=0)
        gradient[n + 2, :n] = slopes.unary[self._last].sum(axis=0)
        # The kernel adds up, for each token, the weights of its attributes. Here it adds up, for
        # each attribute, the slopes of its tokens, below general rows of 0.
        table = np.zeros((general + len(slopes.unary), n))
        table[general:] = slopes.unary
        gradient[general:, :n] = score_values(table, n, *self._transposed)
        if self._kept is not None:
            gradient[:, :n] *= self._kept
        return float(losses.sum()), gradient
