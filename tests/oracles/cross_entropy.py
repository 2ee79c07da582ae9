"""Cross-entropy of labelings by enumeration. The target is any distribution, chain or not."""

from __future__ import annotations

import numpy as np

from bcrf.chain import Marginals, Potentials

from . import enumeration
from .enumeration import Floats


def draw_target(batch: Potentials, rng: np.random.Generator) -> list[Floats]:
    """Return random probabilities of the labelings of each sequence, 0 where -inf forbids one."""
    targets = []
    for _, u, w in enumeration.sequences(batch):
        allowed = enumeration.labelings(u, w)[1] > -np.inf
        q = rng.gamma(0.3, size=len(allowed)) * allowed
        # Draws of such a small shape can all underflow.
        q += 1e-3 * allowed
        targets.append(q / q.sum())
    return targets


def marginals(batch: Potentials, targets: list[Floats]) -> Marginals:
    """Return the tag and edge marginals of distributions over the labelings of each sequence."""
    n, tags = batch.unary.shape
    unary, edges = np.zeros((n, tags)), np.zeros((n, tags, tags))
    for (rows, u, w), q in zip(enumeration.sequences(batch), targets, strict=True):
        for path, p in zip(enumeration.labelings(u, w)[0], q, strict=True):
            for i, tag in enumerate(path):
                unary[rows.start + i, tag] += p
                if i:
                    edges[rows.start + i - 1, path[i - 1], tag] += p
    return Marginals(unary, edges)


def cross_entropy(chain: Potentials, targets: list[Floats]) -> Floats:
    """Return -sum_y q(y) log p(y) of each sequence, (B,). p: the CRF of the chain."""
    losses = []
    for (_, u, w), q in zip(enumeration.sequences(chain), targets, strict=True):
        scores = enumeration.labelings(u, w)[1]
        top = scores.max()
        log_p = scores - top - np.log(np.exp(scores - top).sum())
        losses.append(-(q[q > 0] * log_p[q > 0]).sum())
    return np.array(losses)


def renamed(batch: Potentials, targets: list[Floats], tags: np.ndarray, n_tags: int) -> Marginals:
    """Return the marginals of labelings with the tags (N,) in place of their own, where >= 0."""
    n = len(batch.unary)
    unary, edges = np.zeros((n, n_tags)), np.zeros((n, n_tags, n_tags))
    for (rows, u, w), q in zip(enumeration.sequences(batch), targets, strict=True):
        for path, p in zip(enumeration.labelings(u, w)[0], q, strict=True):
            new = np.where(tags[rows] >= 0, tags[rows], path)
            unary[np.arange(rows.start, rows.stop), new] += p
            edges[np.arange(rows.start, rows.stop)[:-1], new[:-1], new[1:]] += p
    return Marginals(unary, edges)
