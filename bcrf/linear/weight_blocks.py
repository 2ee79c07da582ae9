"""Weights of chains side by side, without those near 0.

A feature has weights for all chains, and most say nothing: a word that one label has seen is no
evidence for the others, but each step moves their weights a little.
"""

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST = 2.0**-10
"""Smaller weights are left out. If all weights are below 1, it is a share of the largest one.

Between 1 and 2, the numbers of float16 are as far apart.
"""
ROWS = 2048
"""Features that are packed together, so that they fit the cache."""


class Blocks(NamedTuple):
    """The weights of F features in the chains in which they have some.

    counts: (F,) uint16, the number of chains of each feature. chains: (B,) uint16, these chains.
    values: (B, S) float32, the weights of the S tags of these chains.
    """

    counts: NDArray[np.uint16]
    chains: NDArray[np.uint16]
    values: NDArray[np.float32]

    def fill(self, weights: NDArray[np.float32]) -> None:
        """Write the weights into zeros (F, at least T)."""
        n_states, stride = self.values.shape[1], weights.shape[1]
        values = np.ascontiguousarray(self.values.T)
        stops = self.counts.cumsum(dtype="int64")
        for start in range(0, len(weights), ROWS):
            rows, counts = weights[start : start + ROWS].reshape(-1), self.counts[start:][:ROWS]
            blocks = slice(*stops[[start, min(start + ROWS, len(stops)) - 1]] - [counts[0], 0])
            places = np.repeat(np.arange(0, len(rows), stride), counts)
            places += self.chains[blocks].astype("int64") * n_states
            for tag in range(n_states):
                rows[places + tag] = values[tag, blocks]


def find_blocks(features: NDArray[np.float32], n_states: int, full: bool = False) -> Blocks:
    """Return the weights (F, T) of chains of S tags that are not near 0, or are not finite.

    full: all weights but zeros.
    """
    n_chains = features.shape[1] // n_states
    largest = float(np.abs(features).max(initial=0))
    least = np.finfo("float32").smallest_subnormal if full else LEAST * min(1.0, largest)
    counts = np.zeros(len(features), dtype="uint16")
    chains, values = [np.zeros(0, "uint16")], [np.zeros((0, n_states), "float32")]
    for start in range(0, len(features), ROWS):
        part = np.ascontiguousarray(features[start : start + ROWS])
        # NaN is not less.
        found = np.flatnonzero(~(np.abs(part) < least) & (part != 0)) // n_states
        found = found[np.diff(found, prepend=-1) > 0]
        rows, of_chain = np.divmod(found, n_chains)
        counts[start : start + ROWS] = np.bincount(rows, minlength=len(part))
        chains.append(of_chain.astype("uint16"))
        values.append(part.reshape(-1, n_states)[found])
    of_blocks = np.concatenate(values)
    of_blocks[np.abs(of_blocks) < least] = 0
    return Blocks(counts, np.concatenate(chains), of_blocks)


def deflate(array: NDArray) -> bytes:
    """Compress an array: the first bytes of all numbers, then the second, and so on.

    The exponent bytes compress and the fraction bytes do not, so longer matches do not pay.
    """
    planes = np.ascontiguousarray(array).view("uint8").reshape(-1, array.itemsize).T
    stream = zlib.compressobj(1, strategy=zlib.Z_HUFFMAN_ONLY)
    return stream.compress(planes.tobytes()) + stream.flush()


def inflate(data: bytes, dtype: np.dtype) -> NDArray:
    """Return the flat array of decompressed bytes of `deflate`."""
    planes = np.frombuffer(data, dtype="uint8").reshape(dtype.itemsize, -1)
    numbers = np.empty(planes.shape[::-1], dtype="uint8")
    for byte, plane in enumerate(planes):
        numbers[:, byte] = plane
    return numbers.view(dtype).ravel()
