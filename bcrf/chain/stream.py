"""Exact labeling of chains whose tokens arrive in pieces.

A tag is final when the best paths into all tags of the next token agree on it. The posterior of an
event among the tokens so far is between its smallest and largest value given each tag of the next
token: the posterior given the whole sequence is their mean, under weights that the rest decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bcrf import kernels

from .potentials import Potentials
from .span_posteriors import SpanTags


class ChainStream:
    """The best labelings of C chains side by side, and what of them is final.

    tags: int32 (C, W), the tags of the tokens from `first` on, -1 if not final.
    final: (C,) the number of tokens of each chain whose tags are final. length: of all tokens.
    forced: the number of tags that `force` has set.
    """

    def __init__(
        self, n_chains: int, transitions: NDArray, posterior: bool, temperature: float = 1.0
    ) -> None:
        """transitions: (T, T), between most tokens. posterior: whether `futures` will be asked.
        temperature: of the posterior.
        """
        n_tags = len(transitions)
        self.first = self.length = self.forced = 0
        self.final = np.zeros(n_chains, dtype="int64")
        self.tags = np.zeros((n_chains, 0), dtype="int32")
        self._best = np.zeros((n_chains, n_tags), dtype=transitions.dtype)
        self._shared = transitions
        self._from: list[NDArray] = []  # of each token from `first` on: the best tag before (C, T)
        self._edges: list[NDArray] = []  # the transitions (T, T) to the next token
        self._rows: list[NDArray] | None = [] if posterior else None  # tag scores (C, T)
        self._scale = 1 / temperature
        self._ended = False

    def extend(self, potentials: Potentials, start: int, stop: int) -> None:
        """Take the next tokens: `start` to `stop` of potentials with one sequence a chain.

        ValueError if no labeling is allowed.
        """
        n_chains = len(self.final)
        unary = potentials.unary.reshape(n_chains, -1, potentials.unary.shape[1])
        edges = potentials.transitions if potentials.transitions.ndim == 3 else None
        for i in range(start, stop):
            best = unary[:, i]
            if self.length:
                into = self._best[:, :, None] + self._edges[-1]
                self._from.append(into.argmax(axis=1))
                best = into.max(axis=1) + best
            else:
                self._from.append(np.zeros(best.shape, dtype="int64"))
            top = best.max(axis=1, keepdims=True)
            if not top.min() > -np.inf:
                raise ValueError(f"token {self.length}: no labeling is allowed")
            # The same operations as `kernels.max_product`, so that ties and rounding agree.
            self._best = best - top if self.length else best.copy()
            is_own = edges is not None and not np.array_equal(edges[i], self._shared)
            self._edges.append(edges[i] if is_own else self._shared)  # type: ignore[index]
            if self._rows is not None:
                self._rows.append(unary[:, i].astype("float64") * self._scale)
            self.length += 1
        added = np.full((n_chains, stop - start), -1, dtype="int32")
        self.tags = np.hstack([self.tags, added])

    def settle(self, ended: bool = False) -> None:
        """Find the tags that are final. ended: whether no token follows, so that all tags are."""
        if not self.length or (self.final == self.length).all():
            return
        self._ended = ended
        if ended:
            at = self._best.argmax(axis=1)[:, None]
        else:
            into = self._best[:, :, None] + self._edges[-1]
            at = into.argmax(axis=1)
            # A tag that nothing leads to takes the path of one that can follow.
            can = into.max(axis=1) > -np.inf
            at = np.where(can, at, np.take_along_axis(at, can.argmax(axis=1)[:, None], axis=1))
        self._trace(at)

    def _trace(self, at: NDArray) -> None:
        """Set the tags before the point where the paths (C, K) to the last token meet."""
        rows = np.arange(len(at))[:, None]
        for i in range(self.length - 1, int(self.final.min()) - 1, -1):
            meet = (at == at[:, :1]).all(axis=1)
            new = meet & (self.final <= i)
            column = self.tags[:, i - self.first]
            column[new] = at[new, 0]
            if meet.all():
                at = at[:, :1]
            at = self._from[i - self.first][rows, at]
        self.final = self.first + (np.cumprod(self.tags >= 0, axis=1)).sum(axis=1)

    def force(self, max_lag: int) -> None:
        """Set the tags of tokens that are `max_lag` tokens old, by the best labeling so far."""
        late = self.length - max_lag
        if self._ended or late <= self.final.min():
            return
        # Only the paths stay that agree with the best one.
        at = self._best.argmax(axis=1)[:, None]
        own = np.broadcast_to(np.arange(self._best.shape[1]), self._best.shape)
        for i in range(self.length - 1, late - 1, -1):
            at, own = (np.take_along_axis(self._from[i - self.first], x, axis=1) for x in (at, own))
        self._best[own != at] = -np.inf
        before = self.final.clip(max=late).sum()
        self.settle()
        self.forced += int(self.final.clip(max=late).sum() - before)

    def drop(self, first: int) -> None:
        """Forget the tokens before `first`, whose tags are final. The last token stays."""
        n = min(first, self.length - 1) - self.first
        if n <= 0:
            return
        if self._rows is not None:
            sequence = np.stack(self._rows[: n + 1], axis=1)  # (C, n + 1, T)
            self._rows = self._rows[n:]
            edges = self._edges[:n]
            unary, transitions, lengths = _flatten(sequence, [*edges, edges[-1]], self._scale)
            found = kernels.sum_product(unary, transitions, lengths).unary
            assert found is not None
            last = found.reshape(sequence.shape)[:, -1]
            with np.errstate(divide="ignore"):
                self._rows[0] = np.log(last)
        self._from, self._edges = self._from[n:], self._edges[n:]
        self.tags, self.first = self.tags[:, n:], self.first + n

    def futures(self, tags: SpanTags | None) -> Potentials:
        """Return the tokens from `first` on in F possible futures: F times C sequences.

        A future is a tag of the next token, and one more token that ends a span of it, if any. Its
        chains have L tokens each, and a future in which a chain has no labeling repeats another.

        tags: of the spans of a chain, None without spans. If the stream has ended, there is one
        future, without further tokens.
        """
        assert self._rows is not None
        rows = np.stack(self._rows, axis=1)  # (C, W, T)
        edges = self._edges
        n_chains, n_tags = self._best.shape
        if self._ended:
            return Potentials.unchecked(*_flatten(rows, edges, self._scale))
        can = (self._best[:, :, None] + edges[-1]).max(axis=1) > -np.inf
        chosen = np.where(can, np.arange(n_tags), can.argmax(axis=1)[:, None])  # (C, T)
        after = np.zeros(n_tags, dtype="int64")
        if tags is not None and not np.array_equal(tags.last, tags.inside):
            after[tags.first] = after[tags.inside] = tags.last
        one_hot = np.where(np.eye(n_tags, dtype=bool), 0.0, -np.inf)
        further = one_hot[np.stack([chosen, after[chosen]], axis=-1)]  # (C, F, 2, T)
        both = np.empty((n_tags, n_chains, rows.shape[1] + 2, n_tags))
        both[:, :, :-2] = rows
        both[:, :, -2:] = further.swapaxes(0, 1)
        shape = n_tags * n_chains, *both.shape[2:]
        flat = _flatten(both.reshape(shape), [*edges, self._shared, self._shared], self._scale)
        return Potentials.unchecked(*flat)


def _flatten(
    rows: NDArray, edges: list[NDArray], scale: float
) -> tuple[NDArray, NDArray, NDArray[np.int32]]:
    """Return unary, transitions and lengths of B sequences of equal length. rows: (B, L, T)."""
    size, length, n_tags = rows.shape
    transitions = edges[0].astype("float64") * scale
    if any(edge is not edges[0] for edge in edges):
        scaled = np.stack(edges).astype("float64") * scale
        transitions = np.tile(scaled, (size, 1, 1))
    lengths = np.full(size, length, dtype="int32")
    return rows.reshape(-1, n_tags), np.ascontiguousarray(transitions), lengths
