"""Independent classification of each token."""

from dataclasses import dataclass

from bcrf import kernels
from bcrf.kernels import Array

from .fully_factorized import FullyFactorized
from .gold import GoldLattice
from .potentials import Potentials, finite, raise_infeasible


@dataclass(frozen=True)
class Unstructured(FullyFactorized):
    """A softmax over the tags of each token. O(N T) time.

    Values and gradients ignore the transitions. Only `decode` and the check of gold annotation
    respect forbidden transitions.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, Unstructured
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> Unstructured().marginals(w).unary.round(2).tolist()
    [[0.73, 0.27], [0.27, 0.73]]
    """

    def infer_tags(self, potentials: Potentials) -> tuple[Array, Array]:
        result = self._log_partitions(potentials)
        return _sums(potentials, result.value), result.unary

    def _log_partitions(self, potentials: Potentials) -> kernels.Result:
        """Return the log-partition (N,) and the tag distribution (N, T) of each token."""
        # A sequence of one token has no edges.
        ones = potentials.xp.ones(len(potentials.unary), dtype="int32")
        return kernels.sum_product(potentials.unary, potentials.transitions, ones)

    def log_tag_probabilities(self, potentials: Potentials) -> Array:
        log_z = self._log_partitions(potentials).value
        raise_infeasible(_sums(potentials, log_z), "allowed")
        return potentials.unary - log_z[:, None]

    def backprop_to_crf(self, potentials: Potentials, d_chain: Potentials) -> Potentials:
        # The chain differs from the tag scores by one normalizer a token.
        d_transitions = potentials.xp.zeros_like(potentials.transitions)
        return d_chain.with_scores(d_chain.unary, d_transitions)

    def differentiate_marginals(self, potentials: Potentials, direction: Potentials) -> Potentials:
        found = super().differentiate_marginals(potentials, direction)
        return found.with_scores(found.unary, potentials.xp.zeros_like(found.transitions))

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return the losses (B,) >= 0 and their gradient, zero for the transitions.

        The loss sums -log p(allowed tags) over tokens. Gold and errors: see `Inference.loss`.
        """
        xp = potentials.xp
        lattice = GoldLattice(potentials, gold)
        raise_infeasible(lattice.best()[1], "gold")
        free, d_unary = self.infer_tags(potentials)
        if lattice.tags is not None:
            tokens = xp.arange(len(lattice.tags))
            target = _sums(potentials, potentials.unary[tokens, lattice.tags])
            d_unary[tokens, lattice.tags] -= 1
        else:
            target, target_unary = self.infer_tags(potentials.restrict(lattice.allowed))
            d_unary -= target_unary
        d_transitions = xp.zeros_like(potentials.transitions)
        gradient = potentials.with_scores(d_unary, d_transitions)
        return finite((free - target).clip(min=0)), gradient


def _sums(potentials: Potentials, values: Array) -> Array:
    """Sum values (N,) over the tokens of each sequence, (B,)."""
    # bincount adds in double precision, which a long sequence needs.
    sums = potentials.xp.bincount(potentials.segment_ids, values, len(potentials.lengths))
    return sums.astype(potentials.unary.dtype)
