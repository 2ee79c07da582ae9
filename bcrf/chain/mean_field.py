"""Mean-field inference."""

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np

from bcrf import kernels
from bcrf.kernels import Array

from .fully_factorized import FullyFactorized
from .gold import UNKNOWN, GoldLattice, check_gold
from .inference import divide
from .potentials import Potentials, bad_sequence, check_least, finite, raise_infeasible

PARTIAL = -(2**31)
"""In place of a tag, which of several allowed ones is unknown."""


@dataclass(frozen=True)
class MeanField(FullyFactorized):
    """Mean-field inference by parallel updates (Wang et al. 2020; Corro et al. 2025, app. G).

    The tag distributions start as r_i ~ exp(unary_i). Each update sets all of them at once to
    r_i ~ exp(unary_i + E_{r_{i-1}}[w] + E_{r_{i+1}}[w]).

    The expectations count a forbidden transition as a score of 0. So forbidden labelings can have
    probability, but `decode` never returns one (see `minimum_risk`).

    `log_partition` is <w, r> + H(r). If no transition is forbidden, it is a lower bound of the
    CRF's log-partition.

    The loss is the one of Wang et al., not a Fenchel-Young loss: -sum_i log r_i(gold_i) after the
    last update. The gradient is back-propagated through all updates. Gold must be complete or
    missing for each sequence: for partial annotation the loss is not defined.

    n_iter: number of updates. O(n_iter N T^2) time; a loss takes O(n_iter N T) memory.

    >>> import numpy as np
    >>> from bcrf.chain import MeanField, Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> MeanField().decode(w).tolist()
    [0, 1]
    """

    n_iter: int = 10

    needs_whole_gold: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_least(1, n_iter=self.n_iter)

    def infer_tags(self, potentials: Potentials) -> tuple[Array, Array]:
        result = kernels.mean_field(*potentials.arrays, self.n_iter)
        return result.value, result.unary

    def log_tag_probabilities(self, potentials: Potentials) -> Array:
        value, unary = self.infer_tags(potentials)
        raise_infeasible(value, "allowed")
        xp, forbidden = potentials.xp, unary.dtype.type("-inf")
        # A probability that underflows must not forbid a tag.
        logs = xp.log(unary.clip(min=xp.finfo(unary.dtype).tiny))
        return xp.where(potentials.unary > forbidden, logs, forbidden)

    def backprop_to_crf(self, potentials: Potentials, d_chain: Potentials) -> Potentials:
        """Return the gradient at convergence, in float64, see `differentiate_marginals`.

        The chain's scores are log r, and r is the gradient of the maximum of <w, r> + H(r).
        """
        xp = potentials.xp
        _, unary = self.infer_tags(potentials.astype("float64"))
        direction = divide(xp, d_chain.unary, unary)
        zeros = xp.zeros(unary.shape[1:] * 2)
        return self.differentiate_marginals(potentials, d_chain.with_scores(direction, zeros))

    def differentiate_marginals(self, potentials: Potentials, direction: Potentials) -> Potentials:
        found = super().differentiate_marginals(potentials, direction)
        # The updates do not depend on the scores of forbidden transitions.
        found.transitions[potentials.transitions == -float("inf")] = 0
        return found

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return the losses (B,) >= 0 and their gradient, zero for a sequence without annotation.

        gold: int32 (N,) or bool (N, T), with one tag for each token. Raises ValueError naming the
        first sequence whose gold labeling is forbidden or partial; on a GPU in a later call, see
        `raise_deferred`.
        """
        check_gold(potentials, gold)
        xp = potentials.xp
        tags = _single_tags(xp, gold) if gold.dtype == bool else xp.ascontiguousarray(gold, "int32")
        if xp is np:
            _check(potentials, gold, tags)
        losses, *gradient = kernels.mean_field_loss(*potentials.arrays, tags, self.n_iter)
        # A GPU notes what is wrong, without a wait.
        return finite(losses) if xp is np else losses, potentials.with_scores(*gradient)


def _single_tags(xp: ModuleType, allowed: Array) -> Array:
    """Tags, int32 (N,), of sets (N, T): -1 for all tags, and PARTIAL for several ones or none."""
    one = xp.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), PARTIAL)
    return xp.where(allowed.all(axis=1), UNKNOWN, one).astype("int32")


def _check(potentials: Potentials, gold: Array, tags: Array) -> None:
    """Raise ValueError naming the first sequence whose gold is wrong, partial or forbidden."""
    unknown = GoldLattice(potentials, gold).unknown
    partial = ~unknown[potentials.segment_ids] & (tags < 0)
    if partial.any():
        raise bad_sequence(potentials.sequence_of(int(partial.argmax())), "partial")
    # `path_scores` needs a tag for every token. The next line ignores unknown sequences.
    scores = kernels.path_scores(*potentials.arrays, tags.clip(min=0))
    raise_infeasible(np.where(unknown, 0, scores), "gold")
