"""The loss of a corpus and its gradient with respect to the weights of a sparse linear chain."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, Constraints, Potentials

from .crfsuite_attributes import Batch, find_starts

_PIECE = 256  # numbers that are added in float32, so that long sums keep their digits
_BLOCK = 512  # sums that a call of the kernel lays out at a time


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
        rows, self._attributes, self._values = batch.rows, None, None
        if batch.values is not None:
            # A feature with a value is a row of its own: its weights, multiplied by the value.
            keys = rows.astype("int64") << 32 | batch.values.astype("float32").view("uint32")
            keys, inverse = np.unique(keys, return_inverse=True)
            rows = inverse.astype("int32")
            self._attributes = keys >> 32
            self._values = keys.astype("uint32").view("float32")[:, None]
        self._rows = rows
        # The tokens of each row, and the pieces that their sums are cut into.
        tokens = np.repeat(np.arange(len(gold), dtype="int32"), np.diff(batch.starts))
        self._tokens = tokens[rows.argsort(kind="stable")]
        n_rows = self.n_attributes if self._attributes is None else len(self._attributes)
        sizes_of_rows = np.bincount(rows, minlength=n_rows)
        n_pieces = -(-sizes_of_rows.clip(min=1) // _PIECE)
        self._first_pieces = find_starts(n_pieces)[:-1]
        within = np.arange(n_pieces.sum()) - np.repeat(self._first_pieces, n_pieces)
        starts = np.repeat(find_starts(sizes_of_rows)[:-1], n_pieces) + within * _PIECE
        self._pieces = np.append(starts, len(tokens)).astype("int64")
        blocks = np.full(-(-len(within) // _BLOCK), _BLOCK, "int32")
        blocks[-1:] -= blocks.sum(dtype="int32") - len(within)
        self._blocks = blocks
        filled = batch.lengths[batch.lengths > 0]
        self._last = filled.cumsum(dtype="int64") - 1
        self._first = self._last - filled + 1

    def zeros(self) -> NDArray[np.float32]:
        """Return weights of 0."""
        return np.zeros((self.n_tags + 3 + self.n_attributes, self.stride), "float32")

    def __call__(self, weights: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
        """Return the loss, and its gradient of the weights' shape."""
        from bcrf.kernels.sparse import score

        n, general = self.n_tags, self.n_tags + 3
        table = weights
        if self._attributes is not None:
            scaled = weights[general:][self._attributes] * self._values
            table = np.concatenate([weights[:general], scaled])
        unary = score(table, n, self._rows, self._batch.starts, self._batch.lengths)
        potentials = Potentials.unchecked(
            unary.astype("float64"), weights[:n, :n].astype("float64"), self._batch.lengths
        )
        losses, slopes = self._objective.loss(potentials.constrain(self._constraints), self._gold)
        gradient = np.zeros_like(weights)
        gradient[:n, :n] = slopes.transitions
        gradient[n, :n] = slopes.unary.sum(axis=0)
        gradient[n + 1, :n] = slopes.unary[self._first].sum(axis=0)
        gradient[n + 2, :n] = slopes.unary[self._last].sum(axis=0)
        sums = self._sum_tokens(slopes.unary)
        if self._attributes is None:
            gradient[general:, :n] = sums
        else:
            firsts = np.flatnonzero(np.diff(self._attributes, prepend=-1))
            sums = np.add.reduceat(sums * self._values, firsts) if len(firsts) else sums
            gradient[general + self._attributes[firsts], :n] = sums
        if self._kept is not None:
            gradient[:, :n] *= self._kept
        return float(losses.sum()), gradient

    def _sum_tokens(self, slopes: NDArray) -> NDArray:
        """Return the sum of the slopes (N, T) of all tokens of each row."""
        from bcrf.kernels.sparse import score

        # The kernel adds up, for each token, the weights of its rows. Here it adds up, for each
        # row, the slopes of its tokens. T chains have 4 rows before the features: all are 0.
        n = self.n_tags
        table = np.zeros((4 + len(slopes), self.stride), "float32")
        table[4:, :n] = slopes
        pieces = score(table, n, self._tokens, self._pieces, self._blocks, n_chains=n)
        return np.add.reduceat(pieces, self._first_pieces) if len(pieces) else pieces
