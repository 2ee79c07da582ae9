"""Inferences whose distribution over labelings factorizes over tokens."""

from abc import abstractmethod

from bcrf.kernels import Array, Edges, Result

from .inference import Inference, Side
from .potentials import Potentials, raise_infeasible
from .search import minimum_risk


class FullyFactorized(Inference):
    """An independent tag distribution for each token."""

    @abstractmethod
    def infer_tags(self, potentials: Potentials) -> tuple[Array, Array]:
        """Return the value (B,), -inf without an allowed tag, and tag distributions (N, T)."""

    def infer(self, potentials: Potentials, edges: Edges = "none", bound: Side = "upper") -> Result:
        value, unary = self.infer_tags(potentials)
        if edges == "none":
            return Result(value, unary, None)
        at = potentials.inner_edges
        if edges == "sum":
            return Result(value, unary, unary[at].T @ unary[at + 1])
        each = potentials.xp.zeros((*unary.shape, unary.shape[1]), dtype=unary.dtype)
        each[at] = unary[at][:, :, None] * unary[at + 1][:, None, :]
        return Result(value, unary, each)

    @abstractmethod
    def log_tag_probabilities(self, potentials: Potentials) -> Array:
        """Return the logs (N, T) of the tag distributions, finite for every allowed tag."""

    def to_crf(self, potentials: Potentials) -> Potentials:
        """Return the product of the tag distributions, restricted to the allowed labelings.

        The transitions are 0 or -inf. Raises ValueError naming the first sequence with a token
        without an allowed tag.
        """
        forbidden = potentials.unary.dtype.type("-inf")
        transitions = potentials.xp.where(potentials.transitions > forbidden, 0, forbidden)
        return potentials.with_scores(self.log_tag_probabilities(potentials), transitions)

    def decode(self, potentials: Potentials) -> Array:
        """Return the most probable tag of each token, int32 (N,).

        If that is forbidden: the allowed labeling with the most correct tags in expectation.
        """
        value, unary = self.infer_tags(potentials)
        raise_infeasible(value, "allowed")
        return minimum_risk(potentials, unary)
