"""No structure: every token by itself."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels import Array, array_module
from .factorized import Factorized
from .lattice import allowed_tags, check_gold, raise_infeasible
from .potentials import Potentials
from .search import feasible


@dataclass(frozen=True)
class Unstructured(Factorized):
    """A softmax over the tags of each token; transitions have no part in values and gradients.

    Only what they forbid is respected: by `decode`, see there, and in gold. O(N T) time.
    """

    def infer_tags(self, potentials: Potentials) -> tuple[Array, Array]:
        unary, lengths = potentials.unary, potentials.lengths
        xp = array_module(unary)
        top = unary.max(axis=1, keepdims=True)
        impossible = xp.isneginf(top)
        node = xp.exp(unary - xp.where(impossible, 0, top))
        total = xp.where(impossible, 1, node.sum(axis=1, keepdims=True))
        node /= total
        # Sums over a long sequence need double precision.
        logs = (top + xp.log(total))[:, 0].astype("float64")
        sequence = xp.repeat(xp.arange(len(lengths)), lengths)
        value = xp.bincount(sequence, weights=logs, minlength=len(lengths))
        return value.astype(unary.dtype), node

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Losses (B,) >= 0, sums over tokens of -log of the probability of the tags that gold
        allows, and their gradient, that of the transitions zero. For gold see `Inference.loss`."""
        xp = array_module(potentials.unary)
        allowed = allowed_tags(potentials, check_gold(potentials, gold))
        possible = feasible(potentials, allowed)
        raise_infeasible(xp.where(possible, 0, -float("inf")), "gold")
        free, node = self.infer_tags(potentials)
        target, target_node = self.infer_tags(potentials.restrict(allowed))
        gradient = Potentials(
            node - target_node, xp.zeros_like(potentials.transitions), potentials.lengths
        )
        return (free - target).clip(min=0), gradient
