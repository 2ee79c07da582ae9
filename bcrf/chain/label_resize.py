"""Initial parameters of new tags.

A new tag starts as the mean, over the old labels, of the tags with the same role. A labeling that
uses a new label then scores the mean of the labelings with an old label in its place. So it is not
the best labeling before training. A new chain side by side starts with O everywhere.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.kernels import Array


def matching_tags(name: str, old: int, new: int, tags_per_label: int) -> NDArray[np.int64]:
    """Return the old tags that share the role of each new tag, (new - old, K).

    old, new: numbers of tags. Tags without a label, such as O, come first, then the tags of each
    label. ValueError, with the name of the model, if `new` is smaller than `old`.
    """
    if new < old:
        raise ValueError(f"{name}: cannot reduce {old} tags to {new}; tags can only be added")
    by_label = np.arange(old % tags_per_label, old).reshape(-1, tags_per_label)
    return by_label.T[np.arange(new - old) % tags_per_label]


def extend_rows(xp: Any, values: Array, matching: Array) -> Array:
    """Append a row for each new tag to (T, ...) values: the mean of its matching rows."""
    roles, role = _roles(xp, matching)
    return xp.concatenate([values, values[roles].mean(axis=1)[role]])


def extend_square(xp: Any, values: Array, matching: Array) -> Array:
    """Append rows and columns to (T, T, ...) values, where k-th rows pair with k-th columns."""
    roles, role = _roles(xp, matching)
    among = values[roles[:, None, :], roles[None, :, :]].mean(axis=2)
    columns = xp.concatenate([values[:, roles].mean(axis=2)[:, role], among[role][:, role]])
    return xp.concatenate([extend_rows(xp, values, matching), columns], axis=1)


def extend_chains(xp: Any, values: Array, n_new: int) -> Array:
    """Append the tags of new chains side by side to (T, ...) values, with zeros."""
    return xp.concatenate([values, xp.zeros((n_new, *values.shape[1:]), dtype=values.dtype)])


def outside_bias(*transitions: Array) -> float:
    """Return the bias of the first tag, O, of a new chain: its best labeling is O everywhere.

    transitions: (S, S), parts whose sum all chains share. A span of m tokens has m + 1 transitions
    that may score more than those among O.
    """
    return 1 + 4 * sum(float(abs(part).max()) for part in transitions)


def _roles(xp: Any, matching: Array) -> tuple[Array, Array]:
    """Return the matching tags (R, K) of each of R roles, and the role of each new tag."""
    _, first, role = xp.unique(matching[:, 0], return_index=True, return_inverse=True)
    return matching[first], role
