"""Label smoothing of Fenchel-Young losses."""

from bcrf.kernels import Array

from .gold import UNKNOWN
from .potentials import Potentials


def smooth_labels(
    weight: float, potentials: Potentials, gold: Array, gradient: Potentials
) -> float:
    """Return what label smoothing adds to the loss of a batch. Add its gradient in place.

    A share, the weight in [0, 1), of each gold tag moves to all tags evenly; gold transitions stay
    (Szegedy et al. 2016). A Fenchel-Young loss is B(w) - <w, y>, so this adds weight * (<w, y> -
    <w, uniform>) of tokens with one gold tag. gold: int32 (N,) with -1 for unknown, or bool (N, T).
    """
    xp, n_tags = potentials.xp, potentials.unary.shape[1]
    if gold.dtype == bool:
        gold = xp.where(gold.sum(axis=1) == 1, gold.argmax(axis=1), UNKNOWN)
    known = xp.flatnonzero(gold != UNKNOWN)
    tags, unary = gold[known], potentials.unary[known]
    gradient.unary[known] -= weight / n_tags
    gradient.unary[known, tags] += weight
    return weight * float((unary[xp.arange(len(tags)), tags] - unary.mean(axis=1)).sum())
