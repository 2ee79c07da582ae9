"""Fenchel-Young losses: what every inference shares as an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .gold import (
    allowed_tags,
    check_gold,
    is_complete,
    path_scores,
    raise_infeasible,
    unknown_sequences,
)
from .potentials import Potentials


class Marginals(NamedTuple):
    """unary: (N, T) tag marginals; edges: (N, T, T), rows of last tokens zero, or None."""

    unary: Array
    edges: Array | None


class Inference(ABC):
    """Answers the questions one asks of potentials, and gives the loss that belongs to them.

    A subclass says one thing, `infer`: a convex value of the potentials (the log-partition A(w)
    of a CRF, B(w) of a Bregman CRF) and the marginals that are its gradient.
    """

    @abstractmethod
    def infer(
        self,
        potentials: Potentials,
        edges: kernels.Edges = "none",
        bound: Literal["upper", "lower"] = "upper",
        marginals: bool = True,
    ) -> kernels.Result:
        """Value (B,) and marginals. Where the value is not exact, `bound` says on which side of
        the truth it must lie."""

    @abstractmethod
    def decode(self, potentials: Potentials) -> Array:
        """int32 (N,): a labeling of each sequence."""

    def log_partition(self, potentials: Potentials) -> Array:
        """(B,) values. Raises ValueError naming the first sequence without allowed labeling."""
        value = self.infer(potentials, marginals=False).value
        raise_infeasible(value, "allowed")
        return value

    def marginals(self, potentials: Potentials, edges: bool = False) -> Marginals:
        """Marginal probabilities of tags, and of pairs of neighbouring tags if asked for."""
        result = self.infer(potentials, "each" if edges else "none")
        raise_infeasible(result.value, "allowed")
        return Marginals(result.unary, result.edges)

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Losses (B,) >= 0 and their gradient with respect to the potentials.

        gold: int32 (N,) with -1 for unknown, or bool (N, T) of allowed tags. With one gold
        labeling the loss is B(w) - <w, y>, with several B(w) - B(w restricted to them), and the
        gradient is the difference of the marginals (Corro et al. 2025, section 5). A sequence
        of which nothing is known has loss and gradient zero.

        Raises ValueError naming the first sequence whose gold labelings are all forbidden.
        """
        gold = check_gold(potentials, gold)
        edges: kernels.Edges = "sum" if potentials.transitions.ndim == 2 else "each"
        if is_complete(gold):
            scores = path_scores(potentials, gold)
            raise_infeasible(scores, "gold")
            free = self.infer(potentials, edges)
            return _clip(free.value - scores), _minus_labeling(free, gold, potentials)
        allowed = allowed_tags(potentials, gold)
        target = self.infer(potentials.restrict(allowed), edges, "lower")
        raise_infeasible(target.value, "gold")
        free = self.infer(potentials, edges)
        losses = _clip(free.value - target.value)
        losses[unknown_sequences(potentials, gold)] = 0
        node, edge = unary_and_edges(free)
        target_node, target_edge = unary_and_edges(target)
        node -= target_node
        edge -= target_edge
        return losses, Potentials.unchecked(node, edge, potentials.lengths)


def unary_and_edges(result: kernels.Result) -> tuple[Array, Array]:
    """Marginals that were asked for."""
    assert result.unary is not None and result.edges is not None
    return result.unary, result.edges


def _clip(losses: Array) -> Array:
    return losses.clip(min=0)


def _minus_labeling(free: kernels.Result, tags: Array, potentials: Potentials) -> Potentials:
    """Marginals minus the indicators of one labeling, in place."""
    xp = array_module(tags)
    node, edge = unary_and_edges(free)
    weights = xp.full((len(potentials.lengths), 1), -1, dtype=node.dtype)
    kernels.add_features(tags[None], weights, potentials.lengths, node, edge)
    return Potentials.unchecked(node, edge, potentials.lengths)
