"""The Bregman conditional random field of Corro, Lacroix and Le Roux (2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array

from .gold import raise_infeasible
from .inference import Inference
from .potentials import Potentials


@dataclass(frozen=True)
class BCRF(Inference):
    """B(w) = max_q <q, w> + H(q) over the tagging polytope, by iterative Bregman projections.

    H(q) = -<q, log q> over arcs (for a sequence of one token, over its tags). All positions of one
    parity are projected at once, so the depth does not grow with the length (Algorithm 1).

    n_iter: iterations, each a projection of every position, the odd ones and then the even.
    relaxation: 1 is the paper's projection; up to 2 (exclusive) over-relaxes it, which converges
        in fewer iterations; "auto" estimates the best value from the observed convergence.
    tolerance: if given, a sequence stops once at no position the marginals of arcs in and arcs out
        differ by more than this, in L1 norm.
    inverse_temperature: by how much `decode` sharpens the potentials.

    Before convergence `log_partition` is an upper bound of B(w), and losses stay nonnegative.
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
        """int32 (N,): the tag of largest marginal at each token, of the sharpened potentials.

        Minimum Bayes risk; the labeling may use a forbidden transition (paper, footnote 4):
        `minimum_risk` is the decoder that cannot.
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
