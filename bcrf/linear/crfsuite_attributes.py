"""The attributes of CRFsuite: names of features with real values, from dicts and lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcrf.chain.potentials import join_ranges


class Batch(NamedTuple):
    """Features of N tokens: `Rows`, the values of the rows or None if all are 1, and lengths."""

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    values: NDArray[np.float64] | None
    lengths: NDArray[np.int32]

    def take(self, sequences: NDArray) -> tuple[Batch, NDArray]:
        """Return some sequences, and the indices of their tokens."""
        ends = self.lengths.cumsum(dtype="int64")
        tokens = join_ranges(ends[sequences] - self.lengths[sequences], self.lengths[sequences])
        sizes = np.diff(self.starts)[tokens]
        at = join_ranges(self.starts[tokens], sizes)
        values = None if self.values is None else self.values[at]
        return Batch(self.rows[at], find_starts(sizes), values, self.lengths[sequences]), tokens


def find_starts(sizes: NDArray) -> NDArray[np.int64]:
    """Return where pieces of these sizes start, and the end of the last one."""
    return np.concatenate([[0], sizes.cumsum(dtype="int64")]).astype("int64")


class Attributes:
    """Attributes by name, and their rows. A token is a dict, a list or another iterable of names.

    A pair of a dict is an attribute: `key:value` for a string, `key` for a number, which is its
    value, and `key:name` for each name of a nested list, set or dict. A list has the names.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        from bcrf.kernels.sparse import AttributeTable

        self._table = AttributeTable(names)

    @property
    def names(self) -> list[str]:
        """The names by row."""
        return self._table.names

    def read(self, X: Iterable[Any], add: bool = False) -> Batch:
        """Look up the attributes of sequences. add: whether unknown ones get new rows.

        ValueError naming the sequence, the token and the attribute.
        """
        return Batch(*self._table.read(X, add))

    def keep(self, batch: Batch, kept: NDArray[np.bool_]) -> tuple[Attributes, Batch]:
        """Return the attributes that are kept, and a batch without the others."""
        names = [name for name, is_kept in zip(self.names, kept, strict=True) if is_kept]
        used = kept[batch.rows]
        rows = (kept.cumsum(dtype="int32") - 1)[batch.rows[used]]
        values = None if batch.values is None else batch.values[used]
        starts = find_starts(used)[batch.starts]
        return Attributes(names), Batch(rows, starts, values, batch.lengths)


def count_features(batch: Batch, gold: NDArray, sizes: tuple[int, int]) -> NDArray[np.float64]:
    """Return the number of each feature in the training data as CRFsuite counts, (T + A, T).

    gold: int32 (N,), -1 for unknown. sizes: T and A. A pair of labels counts where it is found, a
    pair of an attribute and a label by the sum of the attribute's values.

    Source: crf1d_feature.c of CRFsuite 0.12.
    """
    n_labels, n_attributes = sizes
    labels = np.repeat(gold, np.diff(batch.starts)).astype("int64")
    used = labels >= 0
    pairs = batch.rows[used] * n_labels + labels[used]
    values = None if batch.values is None else batch.values[used]
    states = np.bincount(pairs, values, n_attributes * n_labels).reshape(-1, n_labels)
    sequences = np.repeat(np.arange(len(batch.lengths)), batch.lengths)
    is_pair = (gold[:-1] >= 0) & (gold[1:] >= 0) & (sequences[:-1] == sequences[1:])
    pairs = gold[:-1][is_pair].astype("int64") * n_labels + gold[1:][is_pair]
    transitions = np.bincount(pairs, minlength=n_labels**2).reshape(n_labels, n_labels)
    return np.concatenate([transitions, states])
