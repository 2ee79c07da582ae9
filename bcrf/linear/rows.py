"""Features of tokens as rows of weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rows(NamedTuple):
    """Features of N tokens, as rows of weights: token i has rows[starts[i]:starts[i + 1]].

    rows: int32; starts: int64 (N + 1,).

    >>> import numpy as np
    >>> from bcrf.linear import Rows
    >>> rows = Rows(np.array([3, 0, 5], "int32"), np.array([0, 2, 3]))
    >>> rows.rows[rows.starts[1] : rows.starts[2]].tolist()  # the features of token 1
    [5]
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def known_rows(rows: NDArray[np.int32], starts: NDArray[np.int64]) -> Rows:
    """Leave out the rows of -1, which stand for unknown features.

    >>> import numpy as np
    >>> from bcrf.linear import known_rows
    >>> known_rows(np.array([3, -1, 5], "int32"), np.array([0, 2, 3])).rows.tolist()
    [3, 5]
    """
    known = rows >= 0
    if known.all():
        return Rows(rows, starts)
    before = np.concatenate([[0], known.cumsum(dtype="int64")])
    return Rows(rows[known], before[starts])
