"""Entropy, pair marginals and samples in plain array code."""

from __future__ import annotations

from typing import Any

from bcrf.kernels import Array

from .reference import INF, edge_scores, finite, logsumexp, sequences, sum_product


def entropy(xp: Any, unary: Array, transitions: Array, lengths: Array) -> Array:
    """Entropy by the chain rule: of the last tag, plus of the prefix given that tag."""
    entropies = xp.zeros(lengths.shape[0], dtype=unary.dtype)
    for b, rows in sequences(lengths):
        u, w = unary[rows], edge_scores(xp, transitions, rows)
        alpha, h = u[0], xp.zeros_like(u[0])
        for i in range(1, len(u)):
            arcs = alpha[:, None] + w[i - 1]
            h = _mixture_entropy(xp, arcs, h[:, None])
            alpha = logsumexp(xp, arcs, 0) + u[i]
        possible = alpha.max() > -INF
        entropies[b] = xp.where(possible, _mixture_entropy(xp, alpha, h), -INF)
    return entropies


def pair_marginals(
    xp: Any, unary: Array, transitions: Array, lengths: Array, heads: Array, tails: Array
) -> tuple[Array, Array]:
    """Tag marginals, and entries of the edge marginals."""
    _, marginals, edges = sum_product(xp, unary, transitions, lengths, "each", True)
    assert marginals is not None and edges is not None
    return marginals, edges[:, heads, tails]


def sample(xp: Any, unary: Array, transitions: Array, lengths: Array, uniform: Array) -> Array:
    """Forward filtering and backward sampling, by inversion of the cumulative probabilities."""
    tags = xp.zeros(uniform.shape, dtype="int32")
    for _, rows in sequences(lengths):
        u, w = unary[rows], edge_scores(xp, transitions, rows)
        alpha = [u[0]]
        for i in range(1, len(u)):
            alpha.append(logsumexp(xp, alpha[-1][:, None] + w[i - 1], 0) + u[i])
        for i in range(len(u) - 1, -1, -1):
            # (T, n): the scores of each sample's tag, given its next tag.
            scores = alpha[i][:, None]
            if i + 1 < len(u):
                scores = scores + w[i][:, tags[:, rows.start + i + 1]]
            scores = scores - finite(xp, scores.max(axis=0))
            passed = xp.exp(scores).cumsum(axis=0)
            at = uniform[:, rows.start + i] * passed[-1]
            tags[:, rows.start + i] = (passed <= at).sum(axis=0).clip(max=len(passed) - 1)
    return tags


def _mixture_entropy(xp: Any, scores: Array, h: Array) -> Array:
    """Entropy, over axis 0, of a mixture: weights softmax(scores), components of entropy h."""
    log_p = scores - finite(xp, logsumexp(xp, scores, 0))
    return (xp.exp(log_p) * (h - finite(xp, log_p))).sum(axis=0)
