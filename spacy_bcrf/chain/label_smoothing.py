"""Label smoothing of Fenchel-Young losses."""

from __future__ import annotations

from dataclasses import dataclass

from spacy_bcrf.kernels import Array, array_module

from .potentials import Potentials


@dataclass(frozen=True)
class LabelSmoothing:
    """Moves a share of each gold tag to all tags evenly; gold transitions stay.

    A Fenchel-Young loss is B(w) - <w, y>, so smoothing y adds weight * (<w, y> - <w, uniform>) over
    the unary potentials of tokens with one gold tag (Szegedy et al. 2016).

    weight: the share, in [0, 1).
    """

    weight: float

    def __post_init__(self) -> None:
        if not 0 <= self.weight < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), got {self.weight}")

    def loss(self, potentials: Potentials, gold: Array) -> tuple[float, Potentials]:
        """Return the term for a batch, and its gradient. gold: see `Inference.loss`."""
        xp = array_module(potentials.unary)
        n_tags = potentials.unary.shape[1]
        if gold.dtype == bool:
            gold = xp.where(gold.sum(axis=1) == 1, gold.argmax(axis=1), -1)
        known = xp.flatnonzero(gold >= 0)
        tags, unary = gold[known], potentials.unary[known]
        gradient = xp.zeros_like(potentials.unary)
        gradient[known] = -self.weight / n_tags
        gradient[known, tags] += self.weight
        loss = self.weight * float((unary[xp.arange(len(tags)), tags] - unary.mean(axis=1)).sum())
        transitions = xp.zeros_like(potentials.transitions)
        return loss, Potentials.unchecked(gradient, transitions, potentials.lengths)
