"""Unlikelihood training: a loss for labelings that are known to be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spacy_bcrf.kernels import Array

from .fully_factorized import FullyFactorized
from .inference import Inference, unary_and_edges
from .potentials import Potentials

# Clip p at 1 - _EPS so that the gradient stays finite.
_EPS = 1e-3

MAX_CHUNK = 4096
"""Pair marginals of rejections are computed for at most this many tokens at a time."""


class Rejection(NamedTuple):
    """A set of wrong labelings of one sequence, by the allowed tags of each token, bool (L, T)."""

    sequence: int
    allowed: Array


def unlikelihood_loss(
    inference: Inference, potentials: Potentials, rejections: Sequence[Rejection]
) -> tuple[Array, Potentials]:
    """Return the losses (B,) >= 0, -log(1 - p) summed over rejections, and their gradient.

    p = exp(B(w restricted to the rejected labelings) - B(w)). For a CRF, this is the exact
    probability of the rejected labelings (unlikelihood loss, Welleck et al. 2020). No lattice of
    allowed tags expresses such a loss.

    O(L T^2) time for each rejection, and memory for each sequence that has one.
    """
    xp = potentials.xp
    losses = xp.zeros(len(potentials.lengths), dtype=potentials.unary.dtype)
    d_unary, d_transitions = (xp.zeros_like(a) for a in (potentials.unary, potentials.transitions))
    gradient = potentials.with_scores(d_unary, d_transitions)
    if not rejections:
        return losses, gradient
    sequences = sorted({rejection.sequence for rejection in rejections})
    free, tokens = _select(potentials, sequences)
    free_result = inference.infer(free, "each")
    free_unary, free_edges = unary_and_edges(free_result)
    for chunk in _chunks(rejections):
        segments = xp.asarray([sequences.index(rejection.sequence) for rejection in chunk])
        copies, rows = _select(free, segments.tolist())
        wrong = copies.restrict(xp.concatenate([rejection.allowed for rejection in chunk]))
        rejected = inference.infer(wrong, "each")
        rejected_unary, rejected_edges = unary_and_edges(rejected)
        p = xp.exp(rejected.value - free_result.value[segments]).clip(max=1 - _EPS)
        xp.add.at(losses, xp.asarray(sequences)[segments], -xp.log1p(-p))
        weights = (p / (1 - p))[wrong.segment_ids][:, None]
        xp.add.at(d_unary, tokens[rows], weights * (rejected_unary - free_unary[rows]))
        if not isinstance(inference, FullyFactorized):
            edges = weights[:, :, None] * (rejected_edges - free_edges[rows])
            if potentials.transitions.ndim == 2:
                d_transitions += edges.sum(axis=0)
            else:
                xp.add.at(d_transitions, tokens[rows], edges)
    return losses, gradient


def _select(potentials: Potentials, sequences: Sequence[int]) -> tuple[Potentials, Array]:
    """Potentials of these sequences, which may repeat, and the flat indices of their tokens."""
    xp = potentials.xp
    stops = potentials.lengths.cumsum()
    rows = [xp.arange(int(stops[b] - potentials.lengths[b]), int(stops[b])) for b in sequences]
    flat, lengths = xp.concatenate(rows), potentials.lengths[xp.asarray(sequences)]
    transitions = potentials.transitions
    if transitions.ndim == 3:
        transitions = transitions[flat]
    return Potentials(potentials.unary[flat], transitions, lengths), flat


def _chunks(rejections: Sequence[Rejection]) -> Iterator[Sequence[Rejection]]:
    """Split rejections, in order, into chunks of one rejection or at most MAX_CHUNK tokens."""
    start = n_tokens = 0
    for i, rejection in enumerate(rejections):
        n_tokens += len(rejection.allowed)
        if i > start and n_tokens > MAX_CHUNK:
            yield rejections[start:i]
            start, n_tokens = i, len(rejection.allowed)
    yield rejections[start:]
