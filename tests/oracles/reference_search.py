"""Searches for labelings, and the features of labelings, in plain array code."""

from __future__ import annotations

import heapq
from typing import Any

from bcrf.kernels import Array

from .reference import INF, edge_scores, finite, sequences


def nbest(xp: Any, unary: Array, transitions: Array, lengths: Array, n: int) -> tuple[Array, Array]:
    """Keep the n best prefixes of each tag, token by token."""

    def run(u: Array, w: Array) -> list[tuple[float, list[int]]]:
        best = [[(float(score), [tag])] for tag, score in enumerate(u[0])]
        for i in range(1, len(u)):
            best = [
                _best(
                    (
                        (score + float(w[i - 1][prefix[-1], v]) + float(u[i][v]), [*prefix, v])
                        for prefixes in best
                        for score, prefix in prefixes
                    ),
                    n,
                )
                for v in range(u.shape[1])
            ]
        return _best((prefix for prefixes in best for prefix in prefixes), n)

    return _each(xp, unary, transitions, lengths, n, run)


def beam_search(
    xp: Any, unary: Array, transitions: Array, lengths: Array, n: int, width: int
) -> tuple[Array, Array]:
    """Keep the `width` best prefixes at each token that have an allowed continuation."""

    def run(u: Array, w: Array) -> list[tuple[float, list[int]]]:
        alive = [u[-1] > -INF]
        for i in range(len(u) - 2, -1, -1):
            alive.append(((w[i] > -INF) & alive[-1][None, :]).any(axis=1) & (u[i] > -INF))
        beam: list[tuple[float, list[int]]] = [(0.0, [])]
        for i, open_tags in enumerate(alive[::-1]):
            beam = _best(
                (
                    (score + float(u[i][v]) + (float(w[i - 1][prefix[-1], v]) if i else 0.0),
                     [*prefix, v])
                    for score, prefix in beam
                    for v in range(u.shape[1])
                    if open_tags[v]
                ),
                width,
            )  # fmt: skip
        return beam[:n]

    return _each(xp, unary, transitions, lengths, n, run)


def dijkstra(
    xp: Any, unary: Array, transitions: Array, lengths: Array
) -> tuple[Array, Array, Array]:
    """Best-first search with a heap. It also counts the expanded pairs."""
    tags = xp.zeros(unary.shape[0], dtype="int32")
    scores = xp.zeros(lengths.shape[0], dtype=unary.dtype)
    expanded = xp.zeros(lengths.shape[0], dtype="int64")
    for b, rows in sequences(lengths):
        u, w = unary[rows].astype("float64"), edge_scores(xp, transitions, rows)
        # Subtract maxima: all steps are then <= 0, and the order of labelings stays the same.
        steps = [u[0] - finite(xp, u[0].max())]
        for i in range(1, len(u)):
            arcs = w[i - 1].astype("float64") + u[i]
            steps.append(arcs - finite(xp, arcs.max()))
        scores[b] = -INF
        # The kernel decreases keys in place. This heap keeps stale entries instead.
        queue = [(-float(s), tag, 0, [tag]) for tag, s in enumerate(steps[0]) if s > -INF]
        heapq.heapify(queue)
        done = set()
        while queue:
            cost, pair, i, path = heapq.heappop(queue)
            if pair in done:
                continue
            done.add(pair)
            if i == len(u) - 1:
                tags[rows] = xp.asarray(path, dtype="int32")
                scores[b] = sum(u[j, t] for j, t in enumerate(path)) + sum(
                    w[j, path[j], path[j + 1]] for j in range(i)
                )
                break
            for v, s in enumerate(steps[i + 1][path[-1]]):
                if s > -INF:
                    entry = (cost - float(s), (i + 1) * u.shape[1] + v, i + 1, [*path, v])
                    heapq.heappush(queue, entry)
        expanded[b] = len(done)
    return tags, scores, expanded


def path_scores(xp: Any, unary: Array, transitions: Array, lengths: Array, tags: Array) -> Array:
    """Sum the scores of each labeling."""
    scores = xp.zeros(lengths.shape[0])
    for b, rows in sequences(lengths):
        path, w = tags[rows], edge_scores(xp, transitions, rows)
        at = xp.arange(len(path))
        # Long sums need float64.
        scores[b] = unary[rows][at, path].astype("float64").sum()
        scores[b] += w[at[:-1], path[:-1], path[1:]].astype("float64").sum()
    return scores.astype(unary.dtype)


def add_features(
    xp: Any, tags: Array, weights: Array, lengths: Array, d_unary: Array, d_transitions: Array
) -> None:
    """Add weighted features of labelings to a gradient, in place."""
    for b, rows in sequences(lengths):
        for k in range(len(tags)):
            path, weight = tags[k, rows], weights[b, k]
            d_unary[xp.arange(rows.start, rows.stop), path] += weight
            for i in range(len(path) - 1):
                pair = (path[i], path[i + 1])
                at = pair if d_transitions.ndim == 2 else (rows.start + i, *pair)
                d_transitions[at] += weight


def gram_matrices(xp: Any, tags: Array, lengths: Array, n_tags: int, shared: bool) -> Array:
    """Scalar products of explicit feature vectors."""
    n = len(tags)
    products = xp.zeros((len(lengths), n, n))
    for b, rows in sequences(lengths):
        size = rows.stop - rows.start
        features = []
        for path in tags[:, rows]:
            tokens = xp.eye(n_tags)[path]
            edges = tokens[:-1, :, None] * tokens[1:, None, :]
            edges = edges.sum(axis=0) if shared and size > 1 else edges
            features.append(xp.concatenate([tokens.reshape(-1), edges.reshape(-1)]))
        matrix = xp.stack(features)
        products[b] = matrix @ matrix.T
    return products


def hildreth(xp: Any, gains: Array, gram: Array, most: float) -> Array:
    """Cyclic coordinate ascent, at most 1,000 rounds."""
    steps = xp.zeros_like(gains)
    for _ in range(1000):
        moved = xp.zeros_like(gains[:, 0])
        for k in range(steps.shape[1]):
            norm = gram[:, k, k]
            left = gains[:, k] - (gram[:, k] * steps).sum(axis=1)
            step = (steps[:, k] + left / xp.where(norm > 0, norm, 1)).clip(0, most)
            step = xp.where(norm > 0, step, 0)
            moved = xp.maximum(moved, xp.abs(step - steps[:, k]))
            steps[:, k] = step
        if (moved <= 1e-9 * steps.max(axis=1)).all():
            break
    return steps


def _best(prefixes: Any, n: int) -> list[tuple[float, list[int]]]:
    """Return the n best allowed pairs of score and tags. Ties go to the lower tags."""
    allowed = [(-score, tags) for score, tags in prefixes if score > -INF]
    return [(-cost, tags) for cost, tags in heapq.nsmallest(n, allowed)]


def _each(
    xp: Any, unary: Array, transitions: Array, lengths: Array, n: int, run: Any
) -> tuple[Array, Array]:
    tags = xp.zeros((n, unary.shape[0]), dtype="int32")
    scores = xp.full((lengths.shape[0], n), -INF, dtype=unary.dtype)
    scores[lengths == 0, 0] = 0
    for b, rows in sequences(lengths):
        for k, (score, path) in enumerate(run(unary[rows], edge_scores(xp, transitions, rows))):
            scores[b, k] = score
            tags[k, rows] = xp.asarray(path, dtype="int32")
    return tags, scores
