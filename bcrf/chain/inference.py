"""The interface of all inferences, and their Fenchel-Young loss."""

from abc import ABC, abstractmethod
from types import ModuleType
from typing import Literal, NamedTuple

from bcrf import kernels
from bcrf.kernels import Array, Edges, Result

from .gold import GoldLattice, check_gold
from .potentials import Potentials, counted, finite, raise_infeasible

Side = Literal["upper", "lower"]

# Step of the central difference in float64. A probability's error is of the order of its square.
_STEP = 1e-3


class Marginals(NamedTuple):
    """Marginal probabilities of tags and of pairs of neighbouring tags.

    unary: (N, T).
    edges: (N, T, T), where the rows of last tokens are zero; or None.

    >>> import numpy as np
    >>> from bcrf.chain import CRF, Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> CRF().marginals(w, edges=True)
    Marginals(2 tokens, 2 tags, with edges)
    """

    unary: Array
    edges: Array | None

    def __repr__(self) -> str:
        n, t = self.unary.shape
        edges = "" if self.edges is None else ", with edges"
        return f"Marginals({counted(n, 'token')}, {counted(t, 'tag')}{edges})"


class Inference(ABC):
    """Log-partition, marginals, decoding and loss of potentials.

    A subclass defines `infer`, `decode`, `to_crf` and `backprop_to_crf`. `infer` computes a
    function of the potentials and its gradient, the marginals. The function is the log-partition
    A(w) of a CRF, for example, or B(w) of a Bregman CRF.

    All posterior queries (entropy, n-best, samples, span probabilities, rejections) ask the chain
    that `to_crf` returns.

    >>> from bcrf.chain import BCRF, CRF, Inference
    >>> isinstance(CRF(), Inference), isinstance(BCRF(), Inference)
    (True, True)
    """

    @abstractmethod
    def infer(self, potentials: Potentials, edges: Edges = "none", bound: Side = "upper") -> Result:
        """Return the value (B,) and the marginals.

        edges: which edge marginals to compute, see `kernels.Edges`.
        bound: whether an inexact value is an upper or a lower bound of the exact value.
        """

    @abstractmethod
    def decode(self, potentials: Potentials) -> Array:
        """Return one labeling of each sequence, int32 (N,)."""

    @abstractmethod
    def to_crf(self, potentials: Potentials) -> Potentials:
        """Return the inference's distribution over labelings, as potentials of a CRF.

        Raises ValueError naming the first sequence without an allowed labeling.
        """

    @abstractmethod
    def backprop_to_crf(self, potentials: Potentials, d_chain: Potentials) -> Potentials:
        """Return the gradient of a function of `to_crf(potentials)`, in float64 and their shapes.

        d_chain: the gradient with respect to the scores of the chain, (N, T) and (N, T, T).
        """

    def differentiate_marginals(self, potentials: Potentials, direction: Potentials) -> Potentials:
        """Return the derivative of the marginals as the potentials move along `direction`.

        direction: scores (N, T), and (T, T) or (N, T, T). The edge marginals of shared transitions
        are summed. A central difference of two inferences, in float64. Once the inference has
        converged, the marginals are the gradient of the value, and the derivative is the product
        with its Hessian: also the gradient of the direction's expected score. Before, it
        approximates that gradient.
        """
        # float32 would lose most digits in the difference of two nearly equal marginals.
        double, along = potentials.astype("float64"), direction.astype("float64")
        xp, shared = double.xp, double.transitions.ndim == 2
        edges: Edges = "sum" if shared and along.transitions.ndim == 2 else "each"
        steps = (along.unary, along.transitions)
        largest = max((float(xp.abs(x).max()) for x in steps if x.size), default=0.0)
        n, tags = double.unary.shape
        d_unary = xp.zeros((n, tags))
        d_transitions = xp.zeros((tags, tags) if edges == "sum" else (n, tags, tags))
        if largest > 0:
            step = _STEP / largest
            for signed in (step, -step):
                unary, transitions = (
                    x + signed * d
                    for x, d in zip((double.unary, double.transitions), steps, strict=True)
                )
                found = unary_and_edges(self.infer(double.with_scores(unary, transitions), edges))
                d_unary += found[0] / (2 * signed)
                d_transitions += found[1] / (2 * signed)
        if shared and d_transitions.ndim == 3:
            d_transitions = d_transitions.sum(axis=0)
        return double.with_scores(d_unary, d_transitions)

    def fused_loss(self, potentials: Potentials, gold: Array) -> Result | None:
        """Return the losses and their gradient if `kernels.fused_loss` computes them."""
        return None

    def decoding_marginals(self, potentials: Potentials) -> Array:
        """Return the tag marginals (N, T) of minimum-risk decoding. Errors: see `marginals`."""
        return self.marginals(potentials).unary

    def values(self, potentials: Potentials) -> Array:
        """Return the values (B,), -inf for a sequence without an allowed labeling."""
        return self.infer(potentials).value

    def log_partition(self, potentials: Potentials) -> Array:
        """Return the values (B,).

        Raises ValueError naming the first sequence without an allowed labeling.
        """
        value = self.values(potentials)
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

        gold: int32 (N,) with -1 for unknown, or bool (N, T) of allowed tags. The loss is B(w) - <w,
        y> for one gold labeling y, and B(w) - B(w restricted to the gold labelings) for several.
        The gradient is the difference of the two marginals (Corro et al. 2025, section 5), both
        zero for a sequence without annotation.

        Raises ValueError naming the first sequence whose gold labelings are all forbidden, or whose
        scores have sums beyond their type; on a GPU in a later call, see `raise_deferred`.
        """
        check_gold(potentials, gold)
        found = self.fused_loss(potentials, gold)
        if found is not None:
            return found.value, potentials.gradient(*unary_and_edges(found))
        lattice = GoldLattice(potentials, gold)
        edges: Edges = "sum" if potentials.transitions.ndim == 2 else "each"
        target: Result | None = None
        if lattice.tags is None:
            target = self.infer(potentials.restrict(lattice.allowed), edges, "lower")
        scores = lattice.best()[1] if target is None else target.value
        raise_infeasible(scores, "gold")
        free = self.infer(potentials, edges)
        losses, (d_unary, d_transitions) = free.value - scores, unary_and_edges(free)
        if target is not None:
            losses[lattice.unknown] = 0
            target_unary, target_edges = unary_and_edges(target)
            d_unary -= target_unary
            d_transitions -= target_edges
        elif lattice.tags is not None:
            minus_one = potentials.xp.full((len(losses), 1), -1, dtype=losses.dtype)
            features = lattice.tags[None], minus_one, potentials.lengths
            kernels.add_features(*features, d_unary, d_transitions)
        losses = finite(potentials.xp.maximum(losses, 0))
        return losses, potentials.gradient(d_unary, d_transitions)


def divide(xp: ModuleType, x: Array, probabilities: Array) -> Array:
    """Return x / probabilities, 0 where a probability has underflowed."""
    is_normal = probabilities > xp.finfo(probabilities.dtype).tiny
    return xp.where(is_normal, x, 0) / xp.where(is_normal, probabilities, 1)


def expect(xp: ModuleType, probabilities: Array, values: Array) -> Array:
    """Sum probability * value by row, in float64. Probability 0 adds 0, even to infinity."""
    possible = probabilities > 0
    products = xp.where(possible, probabilities, 0) * xp.where(possible, values, 0)
    return products.sum(axis=tuple(range(1, products.ndim)), dtype="float64")


def unary_and_edges(result: Result) -> tuple[Array, Array]:
    """Return the unary and the edge marginals of a result that has both."""
    assert result.unary is not None and result.edges is not None
    return result.unary, result.edges
