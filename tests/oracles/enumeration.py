"""Answers by enumeration: every labeling of a small problem, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Potentials

Floats = NDArray[np.float64]


def sequences(potentials: Potentials) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield the rows, unary scores (L, T) and edge scores (L - 1, T, T) of each sequence."""
    stop = 0
    for length in potentials.lengths.tolist():
        rows = slice(stop, stop + length)
        stop += length
        if potentials.transitions.ndim == 2:
            w = np.broadcast_to(
                potentials.transitions, (max(length - 1, 0), *potentials.transitions.shape)
            )
        else:
            w = potentials.transitions[rows][: max(length - 1, 0)]
        yield rows, potentials.unary[rows].astype("float64"), w.astype("float64")


def labelings(u: Floats, w: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return every labeling (M, L) of one sequence, and the scores (M,)."""
    length, tags = u.shape
    paths = np.array(list(itertools.product(range(tags), repeat=length)), dtype="int64")
    paths = paths.reshape(tags**length, length)
    at = np.arange(length)
    scores = u[at, paths].sum(axis=1) + w[at[:-1], paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return paths, scores


def probabilities(u: Floats, w: Floats) -> Floats:
    """Return the probability (M,) of every labeling of one sequence."""
    scores = labelings(u, w)[1]
    return np.exp(scores - _log_sum(scores))


def log_partition(potentials: Potentials) -> Floats:
    """Return log sum_y exp(score of y) of each sequence, (B,)."""
    return np.array([_log_sum(labelings(u, w)[1]) for _, u, w in sequences(potentials)])


def marginals(potentials: Potentials) -> tuple[Floats, Floats]:
    """Return tag marginals (N, T) and edge marginals (N, T, T), zero in the rows of last tokens."""
    n, tags = potentials.unary.shape
    unary, edges = np.zeros((n, tags)), np.zeros((n, tags, tags))
    for rows, u, w in sequences(potentials):
        paths, p = labelings(u, w)[0], probabilities(u, w)
        for i in range(len(u)):
            np.add.at(unary, (rows.start + i, paths[:, i]), p)
        for i in range(len(u) - 1):
            np.add.at(edges, (rows.start + i, paths[:, i], paths[:, i + 1]), p)
    return unary, edges


def reachable(u: Floats, w: Floats) -> Floats:
    """Return u (L, T) with -inf for every tag that no allowed labeling uses."""
    paths, scores = labelings(u, w)
    used = np.zeros(u.shape, dtype=bool)
    for path in paths[scores > -np.inf]:
        used[np.arange(len(u)), path] = True
    return np.where(used, u, -np.inf)


def viterbi_scores(potentials: Potentials) -> Floats:
    """Return the score of the best labeling of each sequence, (B,)."""
    return np.array([labelings(u, w)[1].max() for _, u, w in sequences(potentials)])


def score(potentials: Potentials, tags: NDArray) -> Floats:
    """Return the scores (B,) of one labeling (N,)."""
    scores = []
    for rows, u, w in sequences(potentials):
        path, at = tags[rows], np.arange(len(u))
        scores.append(u[at, path].sum() + w[at[:-1], path[:-1], path[1:]].sum())
    return np.array(scores)


def _log_sum(scores: Floats) -> float:
    top = scores.max()
    return float(top + np.log(np.exp(scores - top).sum())) if top > -np.inf else float(top)
