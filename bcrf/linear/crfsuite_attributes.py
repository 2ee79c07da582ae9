"""The attributes of CRFsuite: names of features with real values, from dicts and lists."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SKIPPED = -1  # in place of the row of an unknown attribute, or of one with the value 0
_BLOCK = 200  # sequences that are read at a time


class Batch(NamedTuple):
    """Features of N tokens: `Rows`, the values of the rows or None if all are 1, and lengths.

    A row of -1 does not count.
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    values: NDArray[np.float32] | None
    lengths: NDArray[np.int32]

    def take(self, sequences: NDArray) -> tuple[Batch, NDArray]:
        """Return some sequences, and the indices of their tokens."""
        ends = self.lengths.cumsum(dtype="int64")
        tokens = _ranges(ends[sequences] - self.lengths[sequences], self.lengths[sequences])
        sizes = np.diff(self.starts)[tokens]
        at = _ranges(self.starts[tokens], sizes)
        values = None if self.values is None else self.values[at]
        return Batch(self.rows[at], find_starts(sizes), values, self.lengths[sequences]), tokens


def find_starts(sizes: NDArray) -> NDArray[np.int64]:
    """Return where pieces of these sizes start, and the end of the last one."""
    return np.concatenate([[0], sizes.cumsum(dtype="int64")]).astype("int64")


def _ranges(starts: NDArray, sizes: NDArray) -> NDArray[np.int64]:
    """Concatenate the ranges of these starts and sizes."""
    return np.repeat(starts - find_starts(sizes)[:-1], sizes) + np.arange(sizes.sum())


class Attributes:
    """Attributes by name, and their rows.

    A pair of a dict is an attribute: `key:value` for a string, `key` for a number, which is its
    value, and `key:name` for each name of a nested list, set or dict. A list has the names.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._set({name: row for row, name in enumerate(names)})

    def _set(self, rows: dict[str, int]) -> None:
        from bcrf.kernels.sparse import AttributeTable

        self.rows, self._table = rows, AttributeTable(rows)

    def __getstate__(self) -> dict[str, int]:
        return self.rows

    def __setstate__(self, rows: dict[str, int]) -> None:
        self._set(rows)

    def read(self, X: Sequence[Any], add: bool = False) -> Batch:
        """Look up the attributes of sequences. add: whether unknown ones get new rows.

        Raises ValueError naming the sequence, the token and the attribute.
        """
        # Each block starts with an empty part, so that there is one.
        empty = np.zeros(0, "int32"), np.zeros(0, "int64"), None, np.zeros(0, "int32")
        blocks = [empty]
        for first in range(0, len(X), _BLOCK):
            blocks.append(self._read(X[first : first + _BLOCK], first, add))
        rows, sizes, values, lengths = zip(*blocks, strict=True)
        filled = None
        if any(part is not None for part in values):
            parts = zip(rows, values, strict=True)
            filled = np.concatenate(
                [np.ones(len(r), "float32") if v is None else v for r, v in parts]
            )
        starts = find_starts(np.concatenate(sizes))
        return Batch(np.concatenate(rows), starts, filled, np.concatenate(lengths))

    def _read(self, X: Sequence[Any], first: int, add: bool) -> tuple[Any, ...]:
        tokens: list[Any] = []
        ends = []
        for n, sequence in enumerate(X, first):
            if isinstance(sequence, (str, bytes, dict)) or not isinstance(sequence, Iterable):
                raise ValueError(f"sequence {n}: expected a list of tokens, got {sequence!r:.80}")
            tokens += sequence
            ends.append(len(tokens))

        def place(i: int) -> str:
            n = bisect(ends, i)
            return f"sequence {first + n}, token {i - (ends[n - 1] if n else 0)}"

        try:
            rows, sizes, others = self._table.find(tokens, add)
        except TypeError:
            tokens = [_plain_token(token, place, i) for i, token in enumerate(tokens)]
            rows, sizes, others = self._table.find(tokens, add)
        special: dict[int, list[tuple[int, float]]] = {}
        for k, key, value in others:
            try:
                special[k] = self._look_up(key, value, add)
            except ValueError as error:
                i = int(find_starts(sizes).searchsorted(k, side="right")) - 1
                raise ValueError(f"{place(i)}: {error}") from None
        lengths = np.diff(np.array([0, *ends])).astype("int32")
        return (*_expand(rows, sizes, special), lengths)

    def _look_up(self, key: Any, value: Any, add: bool) -> list[tuple[int, float]]:
        """Return the rows and values of a pair. Raises ValueError for one that has no meaning."""
        found = []
        for name, number in _name(key, value):
            row = self.rows.get(name, _SKIPPED)
            if number and add and row == _SKIPPED:
                row = self.rows[name] = len(self.rows)
            found.append((row, number) if number else (_SKIPPED, 1.0))
        return found

    def keep(self, batch: Batch, kept: NDArray[np.bool_] | None = None) -> Batch:
        """Drop rows of -1 and all attributes that are not kept. None keeps all."""
        rows = batch.rows
        if kept is not None:
            new = np.append(np.where(kept, kept.cumsum() - 1, _SKIPPED), _SKIPPED).astype("int32")
            names = [name for name, row in self.rows.items() if kept[row]]
            self._set({name: row for row, name in enumerate(names)})
            rows = new[rows]  # -1 is the last row of `new`
        known = rows >= 0
        values = None if batch.values is None else batch.values[known]
        return Batch(rows[known], find_starts(known)[batch.starts], values, batch.lengths)


def count_features(batch: Batch, gold: NDArray, sizes: tuple[int, int]) -> NDArray[np.float64]:
    """Return the number of each feature in the training data as CRFsuite counts, (T + A, T).

    gold: int32 (N,), -1 for unknown. sizes: T and A. A pair of labels counts where it is found, a
    pair of an attribute and a label by the sum of the attribute's values.

    Source: crf1d_feature.c of CRFsuite 0.12.
    """
    n_labels, n_attributes = sizes
    labels = np.repeat(gold, np.diff(batch.starts)).astype("int64")
    used = (labels >= 0) & (batch.rows >= 0)
    pairs = batch.rows[used] * n_labels + labels[used]
    values = None if batch.values is None else batch.values[used]
    states = np.bincount(pairs, values, n_attributes * n_labels).reshape(-1, n_labels)
    sequences = np.repeat(np.arange(len(batch.lengths)), batch.lengths)
    is_pair = (gold[:-1] >= 0) & (gold[1:] >= 0) & (sequences[:-1] == sequences[1:])
    pairs = gold[:-1][is_pair].astype("int64") * n_labels + gold[1:][is_pair]
    transitions = np.bincount(pairs, minlength=n_labels**2).reshape(n_labels, n_labels)
    return np.concatenate([transitions, states])


def _plain_token(token: Any, place: Callable[[int], str], i: int) -> Any:
    """Return a dict or a list of names. Raises ValueError naming the place of token i."""
    if isinstance(token, (dict, list)):
        return token
    if isinstance(token, Iterable) and not isinstance(token, (str, bytes)):
        return list(token)
    raise ValueError(f"{place(i)}: expected a dict or a list of str, got {token!r:.80}")


def _name(key: Any, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the names and values of a pair. A name alone has the key None."""
    if key is None and isinstance(value, (str, bytes)):
        yield _decode(value), 1.0
    elif not isinstance(key, (str, bytes)):
        raise ValueError(f"attribute {(value if key is None else key)!r:.60} is not a str")
    elif isinstance(value, (str, bytes)):
        yield f"{_decode(key)}:{_decode(value)}", 1.0
    elif isinstance(value, (dict, list, set)):
        pairs = value.items() if isinstance(value, dict) else ((None, name) for name in value)
        for name, number in chain.from_iterable(_name(*pair) for pair in pairs):
            yield f"{_decode(key)}:{name}", number
    else:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"attribute {key!r} has the value {value!r:.60}; expected a str, a bool, a finite "
                "number, or a list, set or dict of these"
            ) from None
        if not math.isfinite(number):
            raise ValueError(f"attribute {key!r} has the value {value!r}; expected a finite number")
        yield _decode(key), number


def _decode(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode()


def _expand(
    rows: NDArray[np.int32], sizes: NDArray, special: dict[int, list[tuple[int, float]]]
) -> tuple[NDArray[np.int32], NDArray, NDArray[np.float32] | None]:
    """Put in the rows and values of special pairs. Return rows, sizes and values."""
    if not special:
        return rows, sizes, None
    counts = np.ones(len(rows), "int64")
    counts[list(special)] = [len(found) for found in special.values()]
    before, starts = find_starts(sizes), find_starts(counts)
    out = np.repeat(rows, counts)
    values = np.ones(len(out), "float32")
    for k, found in special.items():
        for j, (row, value) in enumerate(found, int(starts[k])):
            out[j], values[j] = row, value
    return out, np.diff(starts[before]), None if (values == 1).all() else values
