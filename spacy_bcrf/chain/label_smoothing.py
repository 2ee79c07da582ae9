"""Label smoothing of Fenchel-Young losses."""

from __future__ import annotations

from spacy_bcrf.kernels import Array

from .potentials import Potentials


def smooth_labels(weight: float, potentials: Potentials, gold: Array) -> tuple[float, Potentials]:
    """Return the term that label smoothing adds to the loss of a batch, and its gradient.

    Smoothing moves a share of each gold tag to all tags evenly; gold transitions stay (Szegedy et
    al. 2016). A Fenchel-Young loss is B(w) - <w, y>, so the term is
    weight * (<w, y> - <w, uniform>). Only unary potentials of tokens with one gold tag count.

    weight: the share, in [0, 1). gold: int32 (N,) with -1 for unknown, or bool (N, T).
    """
    xp, n_tags = potentials.xp, potentials.unary.shape[1]
    if gold.dtype == bool:
        gold = xp.where(gold.sum(axis=1) == 1, gold.argmax(axis=1), -1)
    known = xp.flatnonzero(gold >= 0)
    tags, unary = gold[known], potentials.unary[known]
    gradient = xp.zeros_like(potentials.unary)
    gradient[known] = -weight / n_tags
    gradient[known, tags] += weight
    loss = weight * float((unary[xp.arange(len(tags)), tags] - unary.mean(axis=1)).sum())
    return loss, potentials.with_scores(gradient, xp.zeros_like(potentials.transitions))
