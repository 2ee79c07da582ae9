"""Mean field: a distribution over labelings that factorizes over tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .fully_factorized import FullyFactorized
from .gold import (
    allowed_tags,
    check_gold,
    is_complete,
    path_scores,
    raise_infeasible,
    unknown_sequences,
)
from .potentials import Potentials


@dataclass(frozen=True)
class MeanField(FullyFactorized):
    """Mean-field inference by parallel updates (Wang et al. 2020; Corro et al. 2025, app. G).

    From r_i ~ exp(unary_i) on, every update sets all tokens' tag distributions at once to
    r_i ~ exp(unary_i + E_{r_{i-1}}[w] + E_{r_{i+1}}[w]).

    Forbidden transitions are left out of these expectations (a score of 0), so probability can rest
    on forbidden labelings; `decode` returns an allowed one all the same, by `minimum_risk`.

    `log_partition` is <w, r> + H(r), a lower bound of the CRF's unless transitions are forbidden.
    The loss is the one of Wang et al., not a Fenchel-Young loss: -sum_i log r_i(gold_i) after the
    last update, and its gradient goes back through all updates. It takes whole gold labelings or
    none: which of the labelings in a partial lattice a factorized distribution should prefer, one
    token at a time, is not defined.

    n_iter: updates. O(n_iter N T^2) time; a loss takes O(n_iter N T) memory.
    """

    n_iter: int = 10

    needs_whole_gold: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_iter < 1:
            raise ValueError(f"n_iter must be at least 1, got {self.n_iter}")

    def infer_tags(self, potentials: Potentials) -> tuple[Array, Array]:
        result = kernels.mean_field(
            potentials.unary, potentials.transitions, potentials.lengths, self.n_iter
        )
        return result.value, result.unary

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Losses (B,) >= 0 and their gradient.

        gold: int32 (N,) or bool (N, T), one tag for each token; or nothing known of a whole
        sequence, then its loss and gradient are zero.

        Raises ValueError naming the first sequence whose gold labeling is forbidden or partial.
        """
        tags = _whole_labelings(potentials, gold)
        # Of tokens left out any tag will do.
        scores = path_scores(potentials, tags.clip(min=0))
        raise_infeasible(_where_known(potentials, tags, scores), "gold")
        losses, node, edge = kernels.mean_field_loss(
            potentials.unary, potentials.transitions, potentials.lengths, tags, self.n_iter
        )
        return losses, Potentials.unchecked(node, edge, potentials.lengths)


def _whole_labelings(potentials: Potentials, gold: Array) -> Array:
    """int32 (N,): gold with -1 in the sequences of which nothing is known."""
    gold = check_gold(potentials, gold)
    if is_complete(gold):
        return gold
    xp = array_module(gold)
    allowed = allowed_tags(potentials, gold)
    unknown = unknown_sequences(potentials, gold)[potentials.segment_ids]
    partial = ~unknown & (allowed.sum(axis=1) != 1)
    if partial.any():
        sequence = potentials.sequence_of(int(partial.argmax()))
        raise ValueError(
            f"sequence {sequence} has partial gold, and mean field cannot be restricted to a set "
            "of labelings; give each of its tokens a tag, or all of them none, or use a CRF or BCRF"
        )
    return xp.where(unknown, -1, allowed.argmax(axis=1)).astype("int32")


def _where_known(potentials: Potentials, tags: Array, scores: Array) -> Array:
    xp = array_module(tags)
    known = xp.zeros(len(scores), dtype=bool)
    known[potentials.segment_ids[tags >= 0]] = True
    return xp.where(known, scores, 0)
