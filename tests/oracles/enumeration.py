"""The oracle: answers found by listing every labeling of small problems, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spacy_bcrf.chain import Potentials

Floats = NDArray[np.float64]


def sequences(potentials: Potentials) -> Iterator[tuple[slice, Floats, Floats]]:
    """Rows, unary scores (L, T) and edge scores (L - 1, T, T) of each sequence."""
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
    """Every labeling (M, L) of one sequence and its score (M,)."""
    length, tags = u.shape
    paths = np.array(list(itertools.product(range(tags), repeat=length)), dtype="int64")
    paths = paths.reshape(tags**length, length)
    at = np.arange(length)
    scores = u[at, paths].sum(axis=1) + w[at[:-1], paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return paths, scores


def log_partition(potentials: Potentials) -> Floats:
    return np.array([_log_sum(labelings(u, w)[1]) for _, u, w in sequences(potentials)])


def marginals(potentials: Potentials) -> tuple[Floats, Floats]:
    """Tag marginals (N, T) and edge marginals (N, T, T), rows of last tokens zero."""
    n, tags = potentials.unary.shape
    node, edge = np.zeros((n, tags)), np.zeros((n, tags, tags))
    for rows, u, w in sequences(potentials):
        paths, scores = labelings(u, w)
        p = np.exp(scores - _log_sum(scores))
        for i in range(len(u)):
            np.add.at(node, (rows.start + i, paths[:, i]), p)
        for i in range(len(u) - 1):
            np.add.at(edge, (rows.start + i, paths[:, i], paths[:, i + 1]), p)
    return node, edge


def viterbi_scores(potentials: Potentials) -> Floats:
    return np.array([labelings(u, w)[1].max() for _, u, w in sequences(potentials)])


def score(potentials: Potentials, tags: NDArray) -> Floats:
    """(B,) score of one given labeling."""
    scores = []
    for rows, u, w in sequences(potentials):
        path, at = tags[rows], np.arange(len(u))
        scores.append(u[at, path].sum() + w[at[:-1], path[:-1], path[1:]].sum())
    return np.array(scores)


def _log_sum(scores: Floats) -> float:
    top = scores.max()
    return float(top + np.log(np.exp(scores - top).sum())) if top > -np.inf else float(top)
