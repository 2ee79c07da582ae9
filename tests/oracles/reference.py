"""The inner loops in plain array code: the oracle the compiled kernels are tested against.

Works with any array module (NumPy, CuPy) and in log space throughout, so it is exact for scores of
any size, and slow. Functions and arguments are those of `spacy_bcrf.kernels`, after the module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spacy_bcrf.kernels import Array, BregmanOptions, Edges, Result

INF = float("inf")

SMALL = 1e-6
"""Tag marginals below this are projected plainly, never over-relaxed."""


def sum_product(
    xp: Any, unary: Array, transitions: Array, lengths: Array, edges: Edges, marginals: bool
) -> Result:
    value, node, edge = _outputs(xp, unary, lengths, edges)
    for b, rows in sequences(lengths):
        u, w = unary[rows], edge_scores(xp, transitions, rows)
        alpha, beta = [u[0]], [xp.zeros_like(u[0])]
        for i in range(1, len(u)):
            alpha.append(logsumexp(xp, alpha[-1][:, None] + w[i - 1], 0) + u[i])
        for i in range(len(u) - 1, 0, -1):
            beta.append(logsumexp(xp, w[i - 1] + (u[i] + beta[-1])[None, :], 1))
        value[b] = log_z = logsumexp(xp, alpha[-1], 0)
        if log_z == -INF:
            continue
        forward, backward = xp.stack(alpha), xp.stack(beta[::-1])
        node[rows] = xp.exp(forward + backward - log_z)
        if edge is not None:
            arcs = forward[:-1, :, None] + w + (u[1:] + backward[1:])[:, None, :]
            _write_edges(edge, rows, xp.exp(arcs - log_z))
    return Result(value, node, edge) if marginals else Result(value, None, None)


def max_product(xp: Any, unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array]:
    tags = xp.zeros(unary.shape[0], dtype="int32")
    scores = xp.zeros(lengths.shape[0], dtype=unary.dtype)
    for b, rows in sequences(lengths):
        u, w = unary[rows], edge_scores(xp, transitions, rows)
        best = [u[0]]
        for i in range(1, len(u)):
            best.append((best[-1][:, None] + w[i - 1]).max(axis=0) + u[i])
        scores[b] = best[-1].max()
        path = [int(best[-1].argmax())]
        for i in range(len(u) - 2, -1, -1):
            path.append(int((best[i] + w[i][:, path[-1]]).argmax()))
        tags[rows] = xp.asarray(path[::-1], dtype="int32")
    return tags, scores


def bregman(
    xp: Any,
    unary: Array,
    transitions: Array,
    lengths: Array,
    options: BregmanOptions,
    edges: Edges,
) -> Result:
    value, node, edge = _outputs(xp, unary, lengths, edges)
    for b, rows in sequences(lengths):
        w = options.scale * edge_scores(xp, transitions, rows)
        u = _reachable(xp, options.scale * unary[rows], w)
        if bool((u.max(axis=1) == -INF).any()):
            value[b] = -INF
            continue
        if len(u) == 1:
            value[b] = logsumexp(xp, u[0], 0)
            node[rows] = xp.exp(u - value[b])
            continue
        f, g = _project(xp, u, w, options)
        arcs = w + g[:-1, :, None] + f[1:, None, :]
        log_z = logsumexp(xp, arcs.reshape(len(arcs), -1), 1)
        log_q = arcs - log_z[:, None, None]
        q = xp.exp(log_q)
        node[rows] = _node_marginals(xp, q)
        if edge is not None:
            _write_edges(edge, rows, q)
        if options.bound == "lower":
            value[b] = _feasible_value(xp, log_q, u, w)
        else:
            value[b] = log_z.sum() - _log_scales(xp, u, f, g).sum()
    return Result(value, node, edge)


def _project(xp: Any, u: Array, w: Array, options: BregmanOptions) -> tuple[Array, Array]:
    """Log node factors f, g (L, T): arc u -> v of edge i has mass exp(w[i,u,v] + g[i,u] + f[i+1,v])
    up to normalization.

    Where a projection multiplies the arcs into a node by a number it divides those out of it by
    the same number, so f + g stays u at inner positions, but for a scale a position.
    """
    f, g = u / 2, u / 2
    g[0], f[-1] = u[0], u[-1]
    omega, last = 1.0, INF
    for iteration in range(options.n_iter):
        violation = 0.0
        for first in (1, 2):
            at = xp.arange(first, len(u) - 1, 2)
            if len(at) == 0:
                continue
            into = logsumexp(xp, w[at - 1] + g[at - 1][:, :, None], 1)
            out = logsumexp(xp, w[at] + f[at + 1][:, None, :], 2)
            alive = u[at] > -INF
            mass_in = _log_normalized(xp, f[at] + into)
            mass_out = _log_normalized(xp, g[at] + out)
            m, n = xp.exp(mass_in), xp.exp(mass_out)
            violation = max(violation, float(xp.abs(m - n).sum(axis=1).max()))
            # Plainly f and g meet half way, where m = n. Over-relaxed they move on beyond, near
            # the fixed point by omega times the plain step, far from it by a bounded factor more;
            # small masses move plainly.
            excess = omega - 1
            up = (1 + excess) * n + (1 - excess) * m + SMALL
            down = (1 - excess) * n + (1 + excess) * m + SMALL
            step = (_difference(xp, mass_out, mass_in, alive) + xp.log(up / down)) / 2
            f[at] = xp.where(alive, f[at] + step, -INF)
            g[at] = xp.where(alive, g[at] - step, -INF)
            f[at] -= logsumexp(xp, f[at] + into, 1)[:, None]
            g[at] -= logsumexp(xp, g[at] + out, 1)[:, None]
        if iteration == 0:  # always plain, and of arcs that did not sum to one before
            omega = options.relaxation or 1.0
            continue
        if options.tolerance is not None and violation <= options.tolerance:
            break
        if options.relaxation is None:
            omega = estimate_relaxation(violation, last, omega)
        last = violation
    return f, g


def estimate_relaxation(violation: float, last: float, omega: float) -> float:
    """The best over-relaxation by Young's theorem, from the rate at which `omega` converges."""
    if not 0 < violation < last < INF:
        return omega
    rate = violation / last
    jacobi = min((rate + omega - 1) ** 2 / (rate * omega**2), 0.99)
    return 2 / (1 + (1 - jacobi) ** 0.5)


def _feasible_value(xp: Any, log_q: Array, u: Array, w: Array) -> Array:
    """<p, w> + H(p) of the Markov chain p that starts as q and moves by q's conditionals: a point
    of the polytope, so a lower bound of B(w)."""
    log_p = logsumexp(xp, log_q[0], 1)
    value = (xp.exp(log_p) * finite(xp, u[0])).sum()
    for i in range(len(log_q)):
        start = log_p - finite(xp, logsumexp(xp, log_q[i], 1))
        arcs = start[:, None] + log_q[i]
        value = value + (xp.exp(arcs) * (finite(xp, w[i]) - finite(xp, arcs))).sum()
        log_p = logsumexp(xp, arcs, 0)
        value = value + (xp.exp(log_p) * finite(xp, u[i + 1])).sum()
    return value


def _log_scales(xp: Any, u: Array, f: Array, g: Array) -> Array:
    """(L - 2,) by how much f + g exceeds u at each inner position."""
    inner = slice(1, len(u) - 1)
    best = (f + g)[inner].argmax(axis=1)
    at = xp.arange(len(best))
    return (f + g)[inner][at, best] - u[inner][at, best]


def _node_marginals(xp: Any, q: Array) -> Array:
    """(L, T) from arcs (L - 1, T, T): at inner positions the mean of flow in and flow out."""
    first, last = q[:1].sum(axis=2), q[-1:].sum(axis=1)
    return xp.concatenate([first, (q[:-1].sum(axis=1) + q[1:].sum(axis=2)) / 2, last])


def _reachable(xp: Any, u: Array, w: Array) -> Array:
    """`u` with -inf on the tags that no allowed labeling of the whole sequence uses."""
    ok, tag = w > -INF, u > -INF
    alive = tag.copy()
    for i in range(1, len(u)):
        alive[i] &= (ok[i - 1] & alive[i - 1][:, None]).any(axis=0)
    for i in range(len(u) - 2, -1, -1):
        alive[i] &= (ok[i] & alive[i + 1][None, :]).any(axis=1)
    return xp.where(alive, u, -INF)


def _outputs(
    xp: Any, unary: Array, lengths: Array, edges: Edges
) -> tuple[Array, Array, Array | None]:
    n, t = unary.shape
    value = xp.zeros(lengths.shape[0], dtype=unary.dtype)
    shape = {"none": None, "sum": (t, t), "each": (n, t, t)}[edges]
    edge = None if shape is None else xp.zeros(shape, dtype=unary.dtype)
    return value, xp.zeros_like(unary), edge


def sequences(lengths: Array) -> Iterator[tuple[int, slice]]:
    """Index and rows of each sequence that is not empty."""
    stop = 0
    for b, length in enumerate(lengths.tolist()):
        start, stop = stop, stop + length
        if length:
            yield b, slice(start, stop)


def edge_scores(xp: Any, transitions: Array, rows: slice) -> Array:
    """(L - 1, T, T) scores of the edges inside the sequence."""
    if transitions.ndim == 3:
        return transitions[rows.start : rows.stop - 1]
    return xp.broadcast_to(transitions, (rows.stop - rows.start - 1, *transitions.shape))


def _write_edges(edge: Array, rows: slice, q: Array) -> None:
    if edge.ndim == 2:
        edge += q.sum(axis=0)
    else:
        edge[rows.start : rows.stop - 1] = q


def logsumexp(xp: Any, x: Array, axis: int) -> Array:
    top = finite(xp, x.max(axis=axis))
    return _log(xp, xp.exp(x - xp.expand_dims(top, axis)).sum(axis=axis)) + top


def _log_normalized(xp: Any, x: Array) -> Array:
    return x - logsumexp(xp, x, 1)[:, None]


def _difference(xp: Any, x: Array, y: Array, alive: Array) -> Array:
    return xp.where(alive, x, 0) - xp.where(alive, y, 0)


def finite(xp: Any, x: Array) -> Array:
    """`x` with 0 for -inf, where its factor is 0 as well."""
    return xp.where(x > -INF, x, 0)


def _log(xp: Any, x: Array) -> Array:
    return xp.where(x > 0, xp.log(xp.where(x > 0, x, 1)), -INF)
