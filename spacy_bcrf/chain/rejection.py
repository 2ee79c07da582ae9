"""Learning from labelings that are known to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..kernels import Array, array_module
from .factorized import Factorized
from .fenchel_young import Inference, node_and_edge
from .potentials import Potentials

# One less the largest probability of what is wrong that the loss still distinguishes.
_LEAST = 1e-3


class Rejection(NamedTuple):
    """Labelings of one sequence of which none is right: those of allowed tags, bool (L, T)."""

    sequence: int
    allowed: Array


def rejection_loss(
    inference: Inference, potentials: Potentials, rejections: Sequence[Rejection]
) -> tuple[Array, Potentials]:
    """Losses (B,) >= 0, -log(1 - p) summed over the rejections of a sequence, and their gradient.

    p is the probability of the rejected labelings among all that the potentials allow,
    exp(B(w restricted to them) - B(w)): for a CRF the exact likelihood that they are wrong, which
    no set of allowed tags a token can say. O(L T^2) time and memory for each rejection.
    """
    xp = array_module(potentials.unary)
    losses = xp.zeros(len(potentials.lengths), dtype=potentials.unary.dtype)
    node, edge = (xp.zeros_like(a) for a in (potentials.unary, potentials.transitions))
    gradient = Potentials(node, edge, potentials.lengths)
    if not rejections:
        return losses, gradient
    stops = potentials.lengths.cumsum()
    owners = [rejection.sequence for rejection in rejections]
    rows = [xp.arange(int(stops[b] - potentials.lengths[b]), int(stops[b])) for b in owners]
    flat = xp.concatenate(rows)
    lengths = potentials.lengths[xp.asarray(owners)]
    shared = potentials.transitions.ndim == 2
    transitions = potentials.transitions if shared else potentials.transitions[flat]
    free = Potentials(potentials.unary[flat], transitions, lengths)
    wrong = free.restrict(xp.concatenate([rejection.allowed for rejection in rejections]))
    among, rejected = inference.infer(free, "each"), inference.infer(wrong, "each")
    p = xp.exp(rejected.value - among.value).clip(max=1 - _LEAST)
    xp.add.at(losses, xp.asarray(owners), -xp.log1p(-p))
    weights = (p / (1 - p))[free.owners][:, None]
    (node_among, edge_among), (node_rejected, edge_rejected) = map(node_and_edge, (among, rejected))
    xp.add.at(node, flat, weights * (node_rejected - node_among))
    if not isinstance(inference, Factorized):
        edges = weights[:, :, None] * (edge_rejected - edge_among)
        if shared:
            edge += edges.sum(axis=0)
        else:
            xp.add.at(edge, flat, edges)
    return losses, gradient
