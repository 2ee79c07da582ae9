"""Unlikelihood training: a loss for labelings that are known to be wrong."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bcrf.kernels import Array

from .crf import CRF
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

    p is the probability of the rejected labelings under the inference's own distribution,
    `inference.to_crf` (unlikelihood loss, Welleck et al. 2020). No lattice of allowed tags
    expresses such a loss. The gradient is exact for a CRF and for independent tags, and that of p
    at convergence for a Bregman CRF and mean field, see their `backprop_to_crf`.

    O(L T^2) time for each rejection, and memory for each sequence that has one, besides three
    inferences of it for a Bregman CRF or mean field. Raises ValueError naming the first sequence
    with a rejection and without an allowed labeling.
    """
    xp = potentials.xp
    losses = xp.zeros(len(potentials.lengths), dtype=potentials.unary.dtype)
    d_unary, d_transitions = (xp.zeros_like(a) for a in (potentials.unary, potentials.transitions))
    gradient = potentials.with_scores(d_unary, d_transitions)
    if not rejections:
        return losses, gradient
    sequences = sorted({rejection.sequence for rejection in rejections})
    free, tokens = potentials.take(sequences), potentials.tokens_of(sequences)
    chain = inference.to_crf(free)
    chain_result = CRF().infer(chain, "each")
    chain_unary, chain_edges = unary_and_edges(chain_result)
    d_chain = chain.with_scores(xp.zeros_like(chain_unary), xp.zeros_like(chain_edges))
    for chunk in _chunks(rejections):
        segments = xp.asarray([sequences.index(rejection.sequence) for rejection in chunk])
        copies, rows = chain.take(segments.tolist()), chain.tokens_of(segments.tolist())
        wrong = copies.restrict(xp.concatenate([rejection.allowed for rejection in chunk]))
        rejected = CRF().infer(wrong, "each")
        rejected_unary, rejected_edges = unary_and_edges(rejected)
        p = xp.exp(rejected.value - chain_result.value[segments]).clip(max=1 - _EPS)
        xp.add.at(losses, xp.asarray(sequences)[segments], -xp.log1p(-p))
        weights = (p / (1 - p))[wrong.segment_ids][:, None]
        xp.add.at(d_chain.unary, rows, weights * (rejected_unary - chain_unary[rows]))
        d_edges = weights[:, :, None] * (rejected_edges - chain_edges[rows])
        xp.add.at(d_chain.transitions, rows, d_edges)
    d_free = inference.backprop_to_crf(free, d_chain)
    d_unary[tokens] = d_free.unary
    if potentials.transitions.ndim == 2:
        d_transitions[...] = d_free.transitions
    else:
        d_transitions[tokens] = d_free.transitions
    return losses, gradient


def _chunks(rejections: Sequence[Rejection]) -> Iterator[Sequence[Rejection]]:
    """Split rejections, in order, into chunks of one rejection or at most MAX_CHUNK tokens."""
    start = n_tokens = 0
    for i, rejection in enumerate(rejections):
        n_tokens += len(rejection.allowed)
        if i > start and n_tokens > MAX_CHUNK:
            yield rejections[start:i]
            start, n_tokens = i, len(rejection.allowed)
    yield rejections[start:]
