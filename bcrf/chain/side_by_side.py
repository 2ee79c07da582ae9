"""Several chains over the same sequences, such as one for each label whose spans may overlap.

C chains label B sequences with N tokens independently of each other. A layer scores the T tags of
each chain at a token: (N, C T). All inferences see one batch of C B sequences with C N tokens: the
first sequence in each of the chains, then the second and so on.
"""

from collections.abc import Sequence
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from bcrf.kernels import Array

from .potentials import Potentials


def rows_by_chain(lengths: NDArray[np.integer], n_chains: int) -> NDArray[np.int64]:
    """Return the places (C N,) of rows of scores, a token and a chain, in an array (N, C)."""
    lengths = np.asarray(lengths, dtype="int64")
    counts = np.repeat(lengths, n_chains)
    firsts = np.repeat((lengths.cumsum() - lengths) * n_chains, n_chains)
    firsts += np.tile(np.arange(n_chains), len(lengths))
    # The places of a sequence in one chain are n_chains apart.
    starts = counts.cumsum() - counts
    return np.repeat(firsts - n_chains * starts, counts) + n_chains * np.arange(counts.sum())


def split_chains(
    unary: Array, transitions: Array, lengths: NDArray[np.int32], n_chains: int, xp: ModuleType
) -> Potentials:
    """Return the potentials of C chains with shared transitions as C B sequences.

    unary: (N, C T). transitions: (T, T), or (N, T, T) by edge. lengths: (B,) in NumPy.
    """
    if n_chains > 1:
        rows = xp.asarray(rows_by_chain(lengths, n_chains))
        # `take` costs a third of indexing.
        unary = unary.reshape(len(unary) * n_chains, -1).take(rows, axis=0)
        if transitions.ndim == 3:
            transitions = transitions[rows // n_chains]
        lengths = np.repeat(lengths, n_chains)
    return Potentials.deferred(unary, transitions, xp.asarray(lengths), xp)


def join_chains(d_unary: Array, lengths: NDArray[np.int32], n_chains: int, xp: ModuleType) -> Array:
    """Return the gradient (N, C T) of the scores that `split_chains` split, or (N, C T T) of edges.

    d_unary: (C N, T), or (C N, T, T). lengths: (B,) in NumPy.
    """
    if n_chains == 1:
        return d_unary
    joined = xp.empty_like(d_unary)
    joined[xp.asarray(rows_by_chain(lengths, n_chains))] = d_unary
    return joined.reshape(len(d_unary) // n_chains, -1)


def nbest_side_by_side(
    lists: Sequence[tuple[NDArray[np.int32], NDArray[np.floating]]], n: int
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return the n best labelings of all independent chains together, tags (m, C L) and scores.

    lists: the n best of each chain, tags (m, L) and scores (m,) in descending order.
    """
    tags, scores = lists[0]
    for more_tags, more_scores in lists[1:]:
        sums = scores[:, None] + more_scores
        best = np.argsort(-sums.ravel(), kind="stable")[:n]
        rows, columns = np.unravel_index(best, sums.shape)
        tags, scores = np.hstack([tags[rows], more_tags[columns]]), sums.ravel()[best]
    return tags, scores
