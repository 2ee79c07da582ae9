"""The interface of all inferences, and their Fenchel-Young loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array

from .gold import GoldLattice, path_scores
from .potentials import Potentials, counted, raise_infeasible


class Marginals(NamedTuple):
    """Marginal probabilities of tags and of pairs of neighbouring tags.

    unary: (N, T).
    edges: (N, T, T), where the rows of last tokens are zero; or None.
    """

    unary: Array
    edges: Array | None

    def __repr__(self) -> str:
        n, t = self.unary.shape
        edges = "" if self.edges is None else ", with edges"
        return f"Marginals({counted(n, 'token')}, {counted(t, 'tag')}{edges})"


class Inference(ABC):
    """Log-partition, marginals, decoding and loss of potentials.

    A subclass defines `infer` and `decode`. `infer` computes a convex function of the potentials
    and its gradient, the marginals. The function is the log-partition A(w) of a CRF, for example,
    or B(w) of a Bregman CRF.
    """

    @abstractmethod
    def infer(
        self,
        potentials: Potentials,
        edges: kernels.Edges = "none",
        bound: Literal["upper", "lower"] = "upper",
        marginals: bool = True,
    ) -> kernels.Result:
        """Return the value (B,) and the marginals.

        edges: which edge marginals to compute, see `kernels.Edges`.
        bound: whether an inexact value is an upper or a lower bound of the exact value.
        marginals: False permits the inference to skip them.
        """

    @abstractmethod
    def decode(self, potentials: Potentials) -> Array:
        """Return one labeling of each sequence, int32 (N,)."""

    def log_partition(self, potentials: Potentials) -> Array:
        """Return the values (B,).

        Raises ValueError naming the first sequence without an allowed labeling.
        """
        value = self.infer(potentials, marginals=False).value
        raise_infeasible(value, "allowed")
        return value

    def marginals(self, potentials: Potentials, edges: bool = False) -> Marginals:
        """Return the marginals of tags and, with `edges`, of pairs of neighbouring tags.

        Raises ValueError naming the first sequence without an allowed labeling.
        """
        result = self.infer(potentials, "each" if edges else "none")
        raise_infeasible(result.value, "allowed")
        return Marginals(result.unary, result.edges)

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return the losses (B,) >= 0 and their gradient with respect to the potentials.

        gold: int32 (N,) with -1 for unknown, or bool (N, T) of allowed tags.

        The loss is B(w) - <w, y> for one gold labeling y, and B(w) - B(w restricted to the gold
        labelings) for several. The gradient is the difference of the two marginals (Corro et al.
        2025, section 5). Loss and gradient of a sequence without annotation are zero.

        Raises ValueError naming the first sequence whose gold labelings are all forbidden.
        """
        lattice = GoldLattice(potentials, gold)
        edges: kernels.Edges = "sum" if potentials.transitions.ndim == 2 else "each"
        if lattice.tags is not None:
            scores = path_scores(potentials, lattice.tags)
            raise_infeasible(scores, "gold")
            free = self.infer(potentials, edges)
            losses = free.value - scores
            d_unary, d_transitions = unary_and_edges(free)
            lengths = potentials.lengths
            minus_one = potentials.xp.full((len(lengths), 1), -1, dtype=d_unary.dtype)
            kernels.add_features(lattice.tags[None], minus_one, lengths, d_unary, d_transitions)
        else:
            target = self.infer(potentials.restrict(lattice.allowed), edges, "lower")
            raise_infeasible(target.value, "gold")
            free = self.infer(potentials, edges)
            losses = free.value - target.value
            losses[lattice.unknown] = 0
            d_unary, d_transitions = unary_and_edges(free)
            target_unary, target_edges = unary_and_edges(target)
            d_unary -= target_unary
            d_transitions -= target_edges
        gradient = potentials.with_scores(d_unary, d_transitions)
        return losses.clip(min=0), gradient


def unary_and_edges(result: kernels.Result) -> tuple[Array, Array]:
    """Return the unary and the edge marginals of a result that has both."""
    assert result.unary is not None and result.edges is not None
    return result.unary, result.edges
