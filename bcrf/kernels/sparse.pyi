from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Dictionary:
    def __len__(self) -> int: ...
    def count(self, keys: NDArray[np.uint64]) -> None: ...
    def keep(self, min_freq: int) -> None: ...
    def find(self, keys: NDArray[np.uint64], add: bool = False) -> NDArray[np.int32]: ...
    @property
    def keys(self) -> NDArray[np.uint64]: ...
    @keys.setter
    def keys(self, keys: NDArray[np.uint64]) -> None: ...

# Callers hold the next ones as Any. sparse_features.pxi and sparse_learner.pxi have their methods.
Extractor: Any
WordScores: Any
Learner: Any

class StreamTokens:
    words: list[str]
    def __init__(
        self,
        words: list[str],
        hashes: NDArray[np.uint64],
        arrays: tuple[Any, ...],
        marks: NDArray[np.uint64],
    ) -> None: ...

class Stream:
    length: int
    final: int
    undecided: int
    first: int
    forced: int
    def __init__(
        self,
        dictionary: Dictionary,
        weights: NDArray[np.float32],
        before: int,
        after: int,
        transitions: NDArray[np.floating],
        closed: NDArray[np.bool_],
        starts: NDArray[np.bool_],
        goes_on: NDArray[np.bool_],
        outside: int,
        temperature: float,
    ) -> None: ...
    def extend(
        self,
        pieces: list[StreamTokens],
        ended: bool,
        max_lag: int,
        scores: WordScores,
    ) -> list[tuple[int, int, int, int]] | None: ...
    def characters(self, start: int, stop: int) -> tuple[int, int]: ...
    def tags(self, start: int, stop: int) -> list[int]: ...
    def drop(self, first: int) -> None: ...
    def bound(
        self, chain: int, start: int, tags: Sequence[int], inside: int = ...
    ) -> tuple[float, float]: ...
    def candidates(
        self, start: int, least: NDArray[np.float64], tags: NDArray[np.int32]
    ) -> list[tuple[int, int, int, int]]: ...

def score(
    weights: NDArray[np.float32],
    n_tags: int,
    rows: NDArray[np.int32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    n_chains: int = 1,
) -> NDArray[np.float32]: ...
def score_values(
    weights: NDArray[np.float32] | NDArray[np.float64],
    n_tags: int,
    rows: NDArray[np.int32],
    starts: NDArray[np.int64],
    values: NDArray[np.float64] | None,
    lengths: NDArray[np.int32],
) -> NDArray[np.float64]: ...
def correct(
    weights: NDArray[np.float32],
    pairs: NDArray[np.int32],
    unary: NDArray[np.float32],
    transitions: NDArray[np.float32],
    lengths: NDArray[np.int32],
    marginals: NDArray[np.float32],
    best: NDArray[np.int32],
    least: float,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
def shuffled(n: int, seed: int) -> NDArray[np.int32]: ...

class AttributeTable:
    names: list[str]
    def __init__(self, names: Iterable[str] = ()) -> None: ...
    def read(
        self, X: Iterable[Any], add: bool = False
    ) -> tuple[
        NDArray[np.int32], NDArray[np.int64], NDArray[np.float64] | None, NDArray[np.int32]
    ]: ...
