"""Best labelings."""

from __future__ import annotations

from .. import kernels
from ..kernels import Array, array_module
from .lattice import allowed_tags, check_gold
from .potentials import Potentials


def viterbi(potentials: Potentials, gold: Array | None = None) -> tuple[Array, Array]:
    """The best labeling, int32 (N,), and its score (B,); among those `gold` allows, if given.

    Raises ValueError naming the first sequence without an allowed labeling. O(N T^2).
    """
    tags, scores = _best(potentials, gold)
    if scores.size and not scores.min() > -float("inf"):
        sequence = int((scores == -float("inf")).argmax())
        raise ValueError(f"sequence {sequence} has no allowed labeling: all are forbidden by -inf")
    return tags, scores


def feasible(potentials: Potentials, gold: Array | None = None) -> Array:
    """bool (B,): which sequences have a labeling that neither -inf nor `gold` forbids."""
    return _best(potentials, gold)[1] > -float("inf")


def minimum_risk(potentials: Potentials, marginals: Array) -> Array:
    """int32 (N,): the labeling with the largest expected number of right tags, by tag marginals
    (N, T), among those the potentials allow.

    It is the tag of largest marginal at each token wherever that labeling is allowed.
    """
    xp = array_module(marginals)
    forbidden = marginals.dtype.type("-inf")
    unary = xp.where(potentials.unary > forbidden, marginals, forbidden)
    transitions = xp.where(potentials.transitions > forbidden, 0, forbidden)
    return viterbi(Potentials(unary, transitions, potentials.lengths))[0]


def _best(potentials: Potentials, gold: Array | None) -> tuple[Array, Array]:
    if gold is not None:
        potentials = potentials.restrict(allowed_tags(potentials, check_gold(potentials, gold)))
    return kernels.max_product(potentials.unary, potentials.transitions, potentials.lengths)
