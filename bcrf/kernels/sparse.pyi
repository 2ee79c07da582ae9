from collections.abc import Iterable
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

# Callers hold the next ones as Any. The files that sparse.pyx includes have their methods.
Extractor: Any
WordScores: Any
StreamTokens: Any
StreamRules: Any
Stream: Any
Learner: Any

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
