"""The Bregman conditional random field (Corro, Lacroix and Le Roux 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array

from .inference import Inference
from .potentials import Potentials, raise_infeasible


@dataclass(frozen=True)
class BCRF(Inference):
    """Mean regularization B(w) = max_q <q, w> + H(q) by iterative Bregman projections.

    q ranges over the tagging polytope. H(q) = -<q, log q> is the entropy of the arcs, or of the
    tags in a sequence of one token. Each step projects all positions of one parity at once, so the
    depth does not grow with the length (Algorithm 1). O(n_iter N T^2) time.

    n_iter: number of iterations. One iteration projects every inner position: the odd ones first,
        then the even ones.
    relaxation: 1 is the paper's projection. A value between 1 and 2 over-relaxes it, and the
        projections converge in fewer iterations. "auto" estimates the value from the observed rate
        of convergence.
    tolerance: if given, a sequence stops early. It stops once the marginals of the arcs into and
        out of each position differ by at most this L1 distance.
    inverse_temperature: the factor by which `decode` sharpens the potentials.

    Before convergence, `log_partition` is an upper bound of B(w), and the losses stay nonnegative.
    """

    n_iter: int = 10
    relaxation: float | Literal["auto"] = 1.25
    tolerance: float | None = None
    inverse_temperature: float = 10.0

    def __post_init__(self) -> None:
        if self.n_iter < 1:
            raise ValueError(f"n_iter must be at least 1, got {self.n_iter}")
        if self.relaxation != "auto" and not (
            isinstance(self.relaxation, int | float) and 1 <= self.relaxation < 2
        ):
            raise ValueError(f'relaxation must be in [1, 2) or "auto", got {self.relaxation!r}')
        if self.tolerance is not None and not self.tolerance >= 0:
            raise ValueError(f"tolerance must be None or at least 0, got {self.tolerance}")
        if not 0 < self.inverse_temperature < float("inf"):
            raise ValueError(
                f"inverse_temperature must be positive and finite, got {self.inverse_temperature}"
            )

    def infer(
        self,
        potentials: Potentials,
        edges: kernels.Edges = "none",
        bound: Literal["upper", "lower"] = "upper",
        marginals: bool = True,
    ) -> kernels.Result:
        return self._project(potentials, edges, bound, 1.0)

    def decode(self, potentials: Potentials) -> Array:
        """Return the tag of highest marginal at each token under sharpened potentials, int32 (N,).

        The labeling minimizes the risk of each token alone, so it can use a forbidden transition
        (paper, footnote 4). `minimum_risk` returns only allowed labelings.
        """
        result = self._project(potentials, "none", "upper", self.inverse_temperature)
        raise_infeasible(result.value, "allowed")
        assert result.unary is not None
        return result.unary.argmax(axis=1).astype("int32")

    def _project(
        self,
        potentials: Potentials,
        edges: kernels.Edges,
        bound: Literal["upper", "lower"],
        scale: float,
    ) -> kernels.Result:
        relaxation = None if self.relaxation == "auto" else float(self.relaxation)
        options = kernels.BregmanOptions(self.n_iter, relaxation, self.tolerance, bound, scale)
        return kernels.bregman(
            potentials.unary, potentials.transitions, potentials.lengths, options, edges=edges
        )
