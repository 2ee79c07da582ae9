"""Forward-backward, Viterbi and Bregman projections in plain array code and in log space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bcrf.kernels import Array, BregmanOptions, Edges, Result

INF = float("inf")

SMALL = 1e-6
"""Tag marginals below this are never over-relaxed."""


def sum_product(
    xp: Any, unary: Array, transitions: Array, lengths: Array, edges: Edges, marginals: bool
) -> Result:
    """Forward-backward, in log space."""
    value, tag_marginals, edge_marginals = _outputs(xp, unary, lengths, edges)
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
        tag_marginals[rows] = xp.exp(forward + backward - log_z)
        if edge_marginals is not None:
            arcs = forward[:-1, :, None] + w + (u[1:] + backward[1:])[:, None, :]
            _write_edges(edge_marginals, rows, xp.exp(arcs - log_z))
    return Result(value, tag_marginals, edge_marginals) if marginals else Result(value, None, None)


def max_product(xp: Any, unary: Array, transitions: Array, lengths: Array) -> tuple[Array, Array]:
    """Viterbi. Ties go to the lower tag, from the last token back."""
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
    """Bregman projections by log node factors (Corro et al. 2025, Algorithm 1)."""
    value, tag_marginals, edge_marginals = _outputs(xp, unary, lengths, edges)
    for b, rows in sequences(lengths):
        w = options.scale * edge_scores(xp, transitions, rows)
        u = _reachable(xp, options.scale * unary[rows], w)
        if bool((u.max(axis=1) == -INF).any()):
            value[b] = -INF
            continue
        if len(u) == 1:
            value[b] = logsumexp(xp, u[0], 0)
            log_p = u - value[b]
            tag_marginals[rows] = log_p if options.unary == "chain" else xp.exp(log_p)
            continue
        f, g = _project(xp, u, w, options)
        arcs = w + g[:-1, :, None] + f[1:, None, :]
        log_z = logsumexp(xp, arcs.reshape(len(arcs), -1), 1)
        log_q = arcs - log_z[:, None, None]
        q = xp.exp(log_q)
        if options.unary == "chain":
            tag_marginals[rows] = _chain_scores(xp, u, w, f, g, log_z)
        elif options.unary == "outgoing":
            tag_marginals[rows] = xp.concatenate([q.sum(axis=2), q[-1:].sum(axis=1)])
        else:
            tag_marginals[rows] = _tag_marginals(xp, q)
        if edge_marginals is not None:
            _write_edges(edge_marginals, rows, q)
        if options.bound == "lower":
            value[b] = _feasible_value(xp, log_q, u, w)
        else:
            value[b] = log_z.sum() - _log_scales(xp, u, f, g).sum()
    return Result(value, tag_marginals, edge_marginals)


def _project(xp: Any, u: Array, w: Array, options: BregmanOptions) -> tuple[Array, Array]:
    """Return log node factors f, g (L, T).

    Arc u -> v of edge i has the mass exp(w[i,u,v] + g[i,u] + f[i+1,v]), up to normalization.

    A projection multiplies the arcs into a node by a number and divides the arcs out of it by the
    same number. At inner positions f + g therefore stays u, up to one constant for each position.
    """
    f, g = u / 2, u / 2
    g[0], f[-1] = u[0], u[-1]
    omega, last_sweep = 1.0, INF
    violations: list[float] = []
    for iteration in range(options.n_iter):
        at = xp.arange(1 if iteration % 2 else 2, len(u) - 1, 2)
        violations.append(0.0)
        if len(at):
            into = logsumexp(xp, w[at - 1] + g[at - 1][:, :, None], 1)
            out = logsumexp(xp, w[at] + f[at + 1][:, None, :], 2)
            alive = u[at] > -INF
            mass_in = _log_normalized(xp, f[at] + into)
            mass_out = _log_normalized(xp, g[at] + out)
            m, n = xp.exp(mass_in), xp.exp(mass_out)
            violations[-1] = float(xp.abs(m - n).sum(axis=1).max())
            # The plain projection moves f and g half way, to where m = n. Over-relaxation moves
            # further: near the fixed point by omega times the plain step, far from it by a bounded
            # factor. Small masses are not over-relaxed.
            excess = omega - 1
            up = (1 + excess) * n + (1 - excess) * m + SMALL
            down = (1 - excess) * n + (1 + excess) * m + SMALL
            step = (_difference(xp, mass_out, mass_in, alive) + xp.log(up / down)) / 2
            f[at] = xp.where(alive, f[at] + step, -INF)
            g[at] = xp.where(alive, g[at] - step, -INF)
            f[at] -= logsumexp(xp, f[at] + into, 1)[:, None]
            g[at] -= logsumexp(xp, g[at] + out, 1)[:, None]
        # The first two iterations are plain, because the arcs did not sum to one before them.
        if iteration == 1:
            omega = options.relaxation or 1.0
        if iteration < 3:
            continue
        largest = max(violations[-2:])
        if options.tolerance is not None and largest <= options.tolerance:
            break
        if iteration % 2:
            if options.relaxation is None:
                omega = estimate_relaxation(largest, last_sweep, omega)
            last_sweep = largest
    return f, g


def estimate_relaxation(violation: float, last: float, omega: float) -> float:
    """Return the best over-relaxation (Young's theorem), given the convergence rate at `omega`."""
    # Rounding errors decide whether a larger rate is below 1.
    if not 0 < violation < 0.9999 * last < INF:
        return omega
    rate = violation / last
    jacobi = min((rate + omega - 1) ** 2 / (rate * omega**2), 0.99)
    return 2 / (1 + (1 - jacobi) ** 0.5)


def _feasible_value(xp: Any, log_q: Array, u: Array, w: Array) -> Array:
    """Return <p, w> + H(p), a lower bound of B(w).

    The Markov chain p has q's initial and conditional probabilities, so it lies in the polytope.
    """
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
    """Return f + g - u at each inner position, (L - 2,)."""
    inner = slice(1, len(u) - 1)
    best = (f + g)[inner].argmax(axis=1)
    at = xp.arange(len(best))
    return (f + g)[inner][at, best] - u[inner][at, best]


def _chain_scores(xp: Any, u: Array, w: Array, f: Array, g: Array, log_z: Array) -> Array:
    """Return unary scores (L, T) so that with w they score a labeling by its log-probability.

    The Markov chain starts with the arcs of the first edge, and continues with conditional
    probabilities of arcs.
    """
    inner = f[1:-1] - finite(xp, logsumexp(xp, w[1:] + f[2:, None, :], 2))
    return xp.where(u > -INF, xp.concatenate([g[:1] - log_z[0], inner, f[-1:]]), -INF)


def _tag_marginals(xp: Any, q: Array) -> Array:
    """Return the means (L, T) of flow in and flow out, from arcs (L - 1, T, T)."""
    # Only inner positions have both.
    first, last = q[:1].sum(axis=2), q[-1:].sum(axis=1)
    return xp.concatenate([first, (q[:-1].sum(axis=1) + q[1:].sum(axis=2)) / 2, last])


def _reachable(xp: Any, u: Array, w: Array) -> Array:
    """Return `u` with -inf for every tag that no allowed labeling of the sequence uses."""
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
    edge_marginals = None if shape is None else xp.zeros(shape, dtype=unary.dtype)
    return value, xp.zeros_like(unary), edge_marginals


def sequences(lengths: Array) -> Iterator[tuple[int, slice]]:
    """Yield the index and the rows of each non-empty sequence."""
    stop = 0
    for b, length in enumerate(lengths.tolist()):
        start, stop = stop, stop + length
        if length:
            yield b, slice(start, stop)


def edge_scores(xp: Any, transitions: Array, rows: slice) -> Array:
    """Return the transitions of the edges inside a sequence, (L - 1, T, T)."""
    if transitions.ndim == 3:
        return transitions[rows.start : rows.stop - 1]
    return xp.broadcast_to(transitions, (rows.stop - rows.start - 1, *transitions.shape))


def _write_edges(edge_marginals: Array, rows: slice, q: Array) -> None:
    if edge_marginals.ndim == 2:
        edge_marginals += q.sum(axis=0)
    else:
        edge_marginals[rows.start : rows.stop - 1] = q


def logsumexp(xp: Any, x: Array, axis: int) -> Array:
    """Return log sum exp over an axis; -inf if all entries are -inf."""
    top = finite(xp, x.max(axis=axis))
    return _log(xp, xp.exp(x - xp.expand_dims(top, axis)).sum(axis=axis)) + top


def _log_normalized(xp: Any, x: Array) -> Array:
    return x - logsumexp(xp, x, 1)[:, None]


def _difference(xp: Any, x: Array, y: Array, alive: Array) -> Array:
    return xp.where(alive, x, 0) - xp.where(alive, y, 0)


def finite(xp: Any, x: Array) -> Array:
    """Return `x` with 0 for -inf. The factor of such an entry is 0, so the product stays 0."""
    return xp.where(x > -INF, x, 0)


def _log(xp: Any, x: Array) -> Array:
    return xp.where(x > 0, xp.log(xp.where(x > 0, x, 1)), -INF)
