"""Mean-field inference in plain array code."""

from __future__ import annotations

from typing import Any

from bcrf.kernels import Array, Result

from .reference import INF, edge_scores, finite, logsumexp, sequences


def mean_field(xp: Any, unary: Array, transitions: Array, lengths: Array, n_iter: int) -> Result:
    """Value and tag marginals after n_iter parallel updates."""
    value = xp.zeros(lengths.shape[0], dtype=unary.dtype)
    marginals = xp.zeros_like(unary)
    for b, rows in sequences(lengths):
        u, w = unary[rows], finite(xp, edge_scores(xp, transitions, rows))
        if bool((u.max(axis=1) == -INF).any()):
            value[b] = -INF
            continue
        log_r = _updates(xp, u, w, n_iter)[-1]
        marginals[rows] = r = xp.exp(log_r)
        value[b] = (r * (finite(xp, u) - finite(xp, log_r))).sum()
        value[b] += (r[:-1, :, None] * w * r[1:, None, :]).sum()
    return Result(value, marginals, None)


def mean_field_loss(
    xp: Any, unary: Array, transitions: Array, lengths: Array, gold: Array, n_iter: int
) -> Result:
    """Log-loss after n_iter updates, and its gradient by back-propagation through all of them."""
    losses = xp.zeros(lengths.shape[0], dtype=unary.dtype)
    d_unary, d_transitions = xp.zeros_like(unary), xp.zeros_like(transitions)
    for b, rows in sequences(lengths):
        u, w, tags = unary[rows], finite(xp, edge_scores(xp, transitions, rows)), gold[rows]
        if bool((u.max(axis=1) == -INF).any()):
            losses[b] = -INF
            continue
        log_r = _updates(xp, u, w, n_iter)
        known = xp.flatnonzero(tags >= 0)
        losses[b] = -log_r[-1][known, tags[known]].sum()
        # `delta` is the gradient of the logits of each iterate, from the last to the first.
        delta = xp.zeros_like(u)
        delta[known] = xp.exp(log_r[-1][known])
        delta[known, tags[known]] -= 1
        d_unary[rows] = delta
        for before in log_r[-2::-1]:
            r = xp.exp(before)
            arcs = r[:-1, :, None] * delta[1:, None, :] + delta[:-1, :, None] * r[1:, None, :]
            if d_transitions.ndim == 2:
                d_transitions += arcs.sum(axis=0)
            else:
                d_transitions[rows.start : rows.stop - 1] += arcs
            d_r = _messages(xp, w, delta)
            delta = r * (d_r - (r * d_r).sum(axis=1, keepdims=True))
            d_unary[rows] += delta
    return Result(losses, d_unary, xp.where(transitions > -INF, d_transitions, 0))


def _updates(xp: Any, u: Array, w: Array, n_iter: int) -> list[Array]:
    """Return log r (L, T) at the start and after each update."""
    log_r = [u - logsumexp(xp, u, 1)[:, None]]
    for _ in range(n_iter):
        logits = u + _messages(xp, w, xp.exp(log_r[-1]))
        log_r.append(logits - logsumexp(xp, logits, 1)[:, None])
    return log_r


def _messages(xp: Any, w: Array, r: Array) -> Array:
    """Return r_{i-1} W_{i-1} + W_i r_{i+1}, (L, T)."""
    messages = xp.zeros_like(r)
    messages[1:] += (r[:-1, :, None] * w).sum(axis=1)
    messages[:-1] += (w * r[1:, None, :]).sum(axis=2)
    return messages
