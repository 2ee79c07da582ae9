"""The Bregman conditional random field (Corro, Lacroix and Le Roux 2025)."""

from dataclasses import dataclass
from typing import Any, Literal

from bcrf import kernels
from bcrf.kernels import Array, Edges, Result

from .inference import Inference, Side, divide, unary_and_edges
from .potentials import Potentials, check_least, check_positive, raise_infeasible


@dataclass(frozen=True)
class BCRF(Inference):
    """Mean regularization B(w) = max_q <q, w> + H(q) by iterative Bregman projections.

    q ranges over the tagging polytope. H(q) = -<q, log q> is the entropy of the arcs, or of the
    tags in a sequence of one token. Each iteration projects all positions of one parity at once, so
    the depth does not grow with the length. O(n_iter N T^2) time.

    n_iter: number of iterations, the k of the paper's Algorithm 1. An iteration projects the inner
        positions of one parity: first 2, 4, .. (from 0), then 1, 3, .., and so on in turn. Each
        edge is normalized at the end, because one iteration alone does not reach the first edge.
    relaxation: 1 is the paper's projection. A value between 1 and 2 over-relaxes it from the third
        iteration on, and the projections converge in fewer iterations. "auto" estimates the value
        from the observed rate of convergence.
    tolerance: if given, a sequence stops early. It stops after two iterations, one of each parity,
        that found marginals of the arcs into and out of each position at most this far apart (L1).
    inverse_temperature: the factor by which `decode` sharpens the potentials.
    flow: the tag marginals that `decode` compares. "outgoing" sums the arcs out of a tag, and the
        arcs into a tag of the last token, as the paper does. "mean" averages the arcs into and out
        of a tag. Both are equal at convergence.

    `marginals` averages both flows, because the unary score of an inner token belongs to both of
    its edges: the mean is the gradient of B(w).

    Before convergence, `log_partition` is an upper bound of B(w), and the losses stay nonnegative.

    >>> import numpy as np
    >>> from bcrf.chain import BCRF, Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> BCRF(n_iter=10).marginals(w).unary.round(2).tolist()
    [[0.73, 0.27], [0.27, 0.73]]
    """

    n_iter: int = 10
    relaxation: float | Literal["auto"] = kernels.RELAXATION
    tolerance: float | None = None
    inverse_temperature: float = 10.0
    flow: Literal["outgoing", "mean"] = "outgoing"

    def __post_init__(self) -> None:
        check_least(1, n_iter=self.n_iter)
        check_positive(inverse_temperature=self.inverse_temperature)
        if self.tolerance is not None:
            check_least(0, tolerance=self.tolerance)
        if self.relaxation != "auto" and not (
            isinstance(self.relaxation, int | float) and 1 <= self.relaxation < 2
        ):
            raise ValueError(f'relaxation must be in [1, 2) or "auto", got {self.relaxation!r}')
        if self.flow not in ("outgoing", "mean"):
            raise ValueError(f"flow must be outgoing or mean, got {self.flow!r}")

    def infer(self, potentials: Potentials, edges: Edges = "none", bound: Side = "upper") -> Result:
        return self._project(potentials, edges, bound=bound)

    def fused_loss(self, potentials: Potentials, gold: Array) -> Result | None:
        return kernels.fused_loss(*potentials.arrays, gold, self.options())

    def to_crf(self, potentials: Potentials) -> Potentials:
        """Return the Markov chain of the arc marginals q, as potentials with the same transitions.

        The chain draws the first two tags from q_0, and each next tag from q_i(u, v) / sum_v q_i(u,
        v). With q_i(u, v) = g_i(u) exp(w_i(u, v)) f_i+1(v) the unary scores are log g at the first
        token, log f at the last, and log g + log f - log of the flow out of the tag at an inner
        token. O(n_iter N T^2) time, O(N T) memory with shared transitions.

        The log-partition is 0 for every n_iter. At convergence the chain's marginals are q. Before,
        the tag marginals at position i differ from the flow out of i by at most the sum of the
        violations at positions 1 to i, each the L1 distance between flow in and flow out. Raises
        ValueError naming the first sequence without an allowed labeling.
        """
        result = self._project(potentials, unary="chain")
        raise_infeasible(result.value, "allowed")
        return potentials.with_scores(result.unary, potentials.transitions)

    def backprop_to_crf(self, potentials: Potentials, d_chain: Potentials) -> Potentials:
        """Return the gradient at convergence, in float64. Three inferences with arcs (N, T, T).

        The chain is a function of q: arcs add log q, and inner tags subtract the log of their flow
        out. At convergence q is the gradient of B(w), and `differentiate_marginals` multiplies by
        its Hessian. Before, the result is an approximation, not back-propagated through the
        projections.
        """
        xp, double = potentials.xp, potentials.astype("float64")
        _, q = unary_and_edges(self.infer(double, "each"))
        starts = double.starts
        d_flow = divide(xp, d_chain.unary, q.sum(axis=2))
        d_flow[starts] = 0
        d_q = divide(xp, d_chain.transitions, q) - d_flow[:, :, None]
        direction = double.with_scores(xp.zeros_like(double.unary), d_q)
        found = self.differentiate_marginals(double, direction)
        # The chain of a single token has no arcs. Its scores are the tag's, up to the normalizer.
        single = starts[double.lengths[double.lengths > 0] == 1]
        found.unary[single] = d_chain.unary[single]
        return found

    def decode(self, potentials: Potentials) -> Array:
        """Return the tag of highest marginal at each token under sharpened potentials, int32 (N,).

        It can use a forbidden transition (paper, footnote 4), which `minimum_risk` does not.
        """
        return self.decoding_marginals(potentials).argmax(axis=1).astype("int32")

    def decoding_marginals(self, potentials: Potentials) -> Array:
        """Return the tag marginals (N, T) of the sharpened potentials, by `flow`."""
        result = self._project(potentials, scale=self.inverse_temperature, unary=self.flow)
        raise_infeasible(result.value, "allowed")
        return result.unary

    def _project(self, potentials: Potentials, edges: Edges = "none", **more: Any) -> Result:
        """more: further `BregmanOptions`."""
        return kernels.bregman(*potentials.arrays, self.options(**more), edges=edges)

    def options(self, **more: Any) -> kernels.BregmanOptions:
        """Return the options of the kernels. more: further ones."""
        relaxation = None if self.relaxation == "auto" else float(self.relaxation)
        return kernels.BregmanOptions(self.n_iter, relaxation, self.tolerance, **more)
