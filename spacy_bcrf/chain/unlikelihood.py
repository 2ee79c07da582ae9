"""Learning from labelings that are known to be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spacy_bcrf.kernels import Array, array_module

from .fully_factorized import FullyFactorized
from .inference import Inference, unary_and_edges
from .potentials import Potentials

# One less the largest probability of what is wrong that the loss still distinguishes.
_LEAST = 1e-3

# Tokens whose pair marginals are held at a time.
_CHUNK = 4096


class Rejection(NamedTuple):
    """Labelings of one sequence of which none is right: those of allowed tags, bool (L, T)."""

    sequence: int
    allowed: Array


def unlikelihood_loss(
    inference: Inference, potentials: Potentials, rejections: Sequence[Rejection]
) -> tuple[Array, Potentials]:
    """Losses (B,) >= 0, -log(1 - p) summed over the rejections of a sequence, and their gradient.

    p is the probability of the rejected labelings among all that the potentials allow,
    exp(B(w restricted to them) - B(w)): for a CRF the exact likelihood that they are wrong, which
    no set of allowed tags a token can say. O(L T^2) time for each rejection, and
    memory for each sequence that has any.
    """
    xp = array_module(potentials.unary)
    losses = xp.zeros(len(potentials.lengths), dtype=potentials.unary.dtype)
    node, edge = (xp.zeros_like(a) for a in (potentials.unary, potentials.transitions))
    gradient = Potentials(node, edge, potentials.lengths)
    if not rejections:
        return losses, gradient
    sequences = sorted({rejection.sequence for rejection in rejections})
    free, tokens = _take(potentials, sequences)
    among = inference.infer(free, "each")
    for chunk in _chunks(rejections):
        owners = xp.asarray([sequences.index(rejection.sequence) for rejection in chunk])
        copies, rows = _take(free, owners.tolist())
        wrong = copies.restrict(xp.concatenate([rejection.allowed for rejection in chunk]))
        rejected = inference.infer(wrong, "each")
        p = xp.exp(rejected.value - among.value[owners]).clip(max=1 - _LEAST)
        xp.add.at(losses, xp.asarray(sequences)[owners], -xp.log1p(-p))
        weights = (p / (1 - p))[wrong.segment_ids][:, None]
        (node_among, edge_among), (node_rejected, edge_rejected) = map(
            unary_and_edges, (among, rejected)
        )
        xp.add.at(node, tokens[rows], weights * (node_rejected - node_among[rows]))
        if not isinstance(inference, FullyFactorized):
            edges = weights[:, :, None] * (edge_rejected - edge_among[rows])
            if potentials.transitions.ndim == 2:
                edge += edges.sum(axis=0)
            else:
                xp.add.at(edge, tokens[rows], edges)
    return losses, gradient


def _take(potentials: Potentials, sequences: Sequence[int]) -> tuple[Potentials, Array]:
    """Some sequences, any of them several times, and which tokens they are."""
    xp = array_module(potentials.unary)
    stops = potentials.lengths.cumsum()
    rows = [xp.arange(int(stops[b] - potentials.lengths[b]), int(stops[b])) for b in sequences]
    flat, lengths = xp.concatenate(rows), potentials.lengths[xp.asarray(sequences)]
    transitions = potentials.transitions
    if transitions.ndim == 3:
        transitions = transitions[flat]
    return Potentials(potentials.unary[flat], transitions, lengths), flat


def _chunks(rejections: Sequence[Rejection]) -> Iterator[Sequence[Rejection]]:
    """In order, each of one rejection or of at most _CHUNK tokens."""
    start = n_tokens = 0
    for i, rejection in enumerate(rejections):
        n_tokens += len(rejection.allowed)
        if i > start and n_tokens > _CHUNK:
            yield rejections[start:i]
            start, n_tokens = i, len(rejection.allowed)
    yield rejections[start:]
