"""Algorithm 1 of Corro et al. (2025) on explicit arcs, one sequence at a time, in float64."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def project_arcs(u: Floats, w: Floats, n_iter: int) -> Floats:
    """Return the arcs q (L - 1, T, T) of each edge after n_iter projections, each edge with sum 1.

    u: (L, T) tag scores; w: (L - 1, T, T) transition scores; L >= 2.

    The paper has scores of arcs only. The score of an inner token is split in halves between its
    two edges; the first and the last token have one edge. Clusters count from 1: cluster V_j is
    token j - 1. Iteration i = 1, 2, .. projects the inner clusters with the parity of i. A
    projection normalizes both edges of its token. Only edges that no projection has reached do not
    sum to 1 at the end.
    """
    length = len(u)
    shares = np.full((length, 1), 0.5)
    shares[[0, -1]] = 1
    q = np.exp(w + (shares * u)[:-1, :, None] + (shares * u)[1:, None, :])
    for i in range(1, n_iter + 1):
        for j in range(3 if i % 2 else 2, length, 2):
            incoming, outgoing = q[j - 2], q[j - 1]
            w_minus, w_plus = incoming.sum(axis=0), outgoing.sum(axis=1)
            open_tags = (w_minus > 0) & (w_plus > 0)
            sigma = np.zeros(len(w_plus))
            sigma[open_tags] = (np.log(w_plus[open_tags]) - np.log(w_minus[open_tags])) / 2
            s = (w_minus * np.exp(sigma))[open_tags].sum()
            incoming *= np.where(open_tags, np.exp(sigma), 0)[None, :] / s
            outgoing *= np.where(open_tags, np.exp(-sigma), 0)[:, None] / s
    return q / q.sum(axis=(1, 2), keepdims=True)


def outgoing_marginals(q: Floats) -> Floats:
    """Return the tag marginals (L, T) of the outgoing arcs; for the last token, of the incoming."""
    return np.concatenate([q.sum(axis=2), q[-1:].sum(axis=1)])


def mean_marginals(q: Floats) -> Floats:
    """Return the means (L, T) of the marginals of incoming and outgoing arcs."""
    into, out = q.sum(axis=1), q.sum(axis=2)
    return np.concatenate([out[:1], (into[:-1] + out[1:]) / 2, into[-1:]])


def violations(q: Floats) -> Floats:
    """Return the L1 distances (L - 2,) between incoming and outgoing marginals of inner tokens."""
    return np.abs(q.sum(axis=1)[:-1] - q.sum(axis=2)[1:]).sum(axis=1)


def chain_probabilities(q: Floats) -> Floats:
    """Return the probabilities (M,) of all labelings, as `enumeration.labelings` orders them.

    The Markov chain starts with the arcs of the first edge. Each next edge gives the conditional
    probability of a tag: its arc, divided by the sum of the arcs out of the previous tag.
    """
    length, tags = len(q) + 1, q.shape[1]
    found = []
    for y in itertools.product(range(tags), repeat=length):
        p = q[0, y[0], y[1]]
        for i in range(1, length - 1):
            out = q[i, y[i]].sum()
            p *= q[i, y[i], y[i + 1]] / out if out > 0 else 0.0
        found.append(p)
    return np.array(found)
