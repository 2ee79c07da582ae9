"""What inferences share whose distribution over labelings factorizes over tokens."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .gold import raise_infeasible
from .inference import Inference
from .potentials import Potentials
from .search import minimum_risk


class FullyFactorized(Inference):
    """A tag distribution for each token, independent of the others'."""

    @abstractmethod
    def infer_tags(self, potentials: Potentials) -> tuple[Array, Array]:
        """Value (B,), -inf where a token has no allowed tag, and tag distributions (N, T)."""

    def infer(
        self,
        potentials: Potentials,
        edges: kernels.Edges = "none",
        bound: Literal["upper", "lower"] = "upper",
        marginals: bool = True,
    ) -> kernels.Result:
        value, node = self.infer_tags(potentials)
        heads = potentials.inner_edges
        if edges == "none":
            return kernels.Result(value, node, None)
        if edges == "sum":
            return kernels.Result(value, node, node[heads].T @ node[heads + 1])
        xp = array_module(node)
        each = xp.zeros((*node.shape, node.shape[1]), dtype=node.dtype)
        each[heads] = node[heads][:, :, None] * node[heads + 1][:, None, :]
        return kernels.Result(value, node, each)

    def decode(self, potentials: Potentials) -> Array:
        """int32 (N,): the tag of largest probability at each token; where these are forbidden
        together, the allowed labeling with the largest expected number of right tags."""
        value, node = self.infer_tags(potentials)
        raise_infeasible(value, "allowed")
        return minimum_risk(potentials, node)
