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

class Extractor:
    def __init__(self, templates: Iterable[tuple[int, Sequence[tuple[int, int]]]]) -> None: ...
    def extract(self, arrays: tuple[Any, ...]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]: ...

class WordScores:
    def __init__(
        self,
        templates: Iterable[tuple[int, Sequence[tuple[int, int]]]],
        n_of_word: int,
        n_bytes: int = ...,
    ) -> None: ...
    def score(
        self,
        dictionary: Dictionary,
        weights: NDArray[np.float32],
        n_tags: int,
        n_chains: int,
        orths: NDArray[np.uint64],
        arrays: tuple[Any, ...],
    ) -> NDArray[np.float32]: ...

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

class Learner:
    def __init__(
        self,
        objective: str,
        n_tags: int,
        *,
        n_chains: int = 1,
        n: int,
        n_iter: int,
        beam: int,
        averaged: bool,
        adagrad: bool,
        rate: float,
        decay: float,
        l2: float,
        l1: float,
        n_sequences: float,
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def stride(self) -> int: ...
    def set_n_sequences(self, n_sequences: float) -> None: ...
    def resize(self, n_features: int) -> None: ...
    def constrain(
        self,
        transitions: NDArray[np.uint8],
        start: NDArray[np.uint8],
        end: NDArray[np.uint8],
    ) -> None: ...
    def set_pairs(self, pairs: NDArray[np.int32], least: float) -> None: ...
    def learn(
        self,
        rows: NDArray[np.int32],
        starts: NDArray[np.int64],
        gold: NDArray[np.int32] | None,
        allowed: NDArray[np.uint8] | None,
        open: NDArray[np.uint8] | None,
        offsets: NDArray[np.int64],
        order: NDArray[np.int32],
    ) -> tuple[float, int]: ...
    def descend(
        self,
        rows: NDArray[np.int32],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        d_unary: NDArray[np.float32],
        d_transitions: NDArray[np.float32],
    ) -> None: ...
    def score(
        self,
        rows: NDArray[np.int32],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
    def read(self) -> NDArray[np.float32]: ...
    def write(self, weights: NDArray[np.float32]) -> None: ...

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
