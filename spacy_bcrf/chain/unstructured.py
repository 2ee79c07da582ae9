"""No structure: every token by itself."""

from __future__ import annotations

from dataclasses import dataclass

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .fully_factorized import FullyFactorized
from .gold import allowed_tags, check_gold, is_complete, path_scores, raise_infeasible
from .potentials import Potentials
from .search import feasible


@dataclass(frozen=True)
class Unstructured(FullyFactorized):
    """A softmax over the tags of each token; transitions have no part in values and gradients.

    Only what they forbid is respected: by `decode`, see there, and in gold. O(N T) time.
    """

    def infer_tags(self, potentials: Potentials) -> tuple[Array, Array]:
        xp = array_module(potentials.unary)
        # As sequences of one token each, which have no edges.
        single = xp.ones(len(potentials.unary), dtype="int32")
        result = kernels.sum_product(potentials.unary, potentials.transitions, single)
        return _sums(potentials, result.value), result.unary

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Losses (B,) >= 0, sums over tokens of -log of the probability of the tags that gold
        allows, and their gradient, that of the transitions zero. For gold see `Inference.loss`."""
        xp = array_module(potentials.unary)
        gold = check_gold(potentials, gold)
        free, node = self.infer_tags(potentials)
        if is_complete(gold):
            raise_infeasible(path_scores(potentials, gold), "gold")
            tokens = xp.arange(len(gold))
            target = _sums(potentials, potentials.unary[tokens, gold])
            node[tokens, gold] -= 1
        else:
            allowed = allowed_tags(potentials, gold)
            raise_infeasible(xp.where(feasible(potentials, allowed), 0, -float("inf")), "gold")
            target, target_node = self.infer_tags(potentials.restrict(allowed))
            node -= target_node
        edge = xp.zeros_like(potentials.transitions)
        gradient = Potentials.unchecked(node, edge, potentials.lengths)
        return (free - target).clip(min=0), gradient


def _sums(potentials: Potentials, values: Array) -> Array:
    """(B,) sums over the tokens of each sequence of values (N,)."""
    xp = array_module(values)
    # bincount adds in double precision, which a long sequence needs.
    sums = xp.bincount(potentials.segment_ids, values, len(potentials.lengths))
    return sums.astype(potentials.unary.dtype)
