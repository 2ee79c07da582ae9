"""What components of a file share: sections of numbers, and tables of strings."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.linear.model_bytes import group_words

TYPES = ("uint8", "int32", "float16", "float32", "uint64")
"""The types of numbers, `model_file.js` has the same."""


class Sections:
    """kinds: type and number of elements of each section. parts: their bytes. tables: of strings.

    A section has the first bytes of all numbers, then the second: they compress better.
    """

    def __init__(self) -> None:
        self.kinds: list[tuple[str, int]] = []
        self.parts: list[bytes] = []
        self.tables: list[Any] = []

    def add(self, array: NDArray) -> int:
        """Append an array of one of the `TYPES`. RETURNS the index of its section."""
        array = np.ascontiguousarray(array)
        assert array.dtype.name in TYPES
        self.kinds.append((array.dtype.name, array.size))
        self.parts.append(array.view("uint8").reshape(-1, array.itemsize).T.tobytes())
        return len(self.parts) - 1

    def add_floats(self, array: NDArray[np.float32]) -> int:
        """Append numbers as float16 if that changes none."""
        with np.errstate(over="ignore"):
            half = array.astype("float16")
        return self.add(half if np.array_equal(half.astype("float32"), array) else array)

    def share(self, table: Any) -> int:
        """Return the index of a table."""
        if table not in self.tables:
            self.tables.append(table)
        return self.tables.index(table)

    def share_words(self, table: dict[str, str]) -> int:
        return self.share(group_words(table))
