"""The expected entity ratio loss (Effland and Collins 2021)."""

from dataclasses import dataclass

from bcrf.kernels import Array

from .inference import Inference
from .potentials import Potentials


@dataclass(frozen=True)
class ExpectedEntityRatio:
    """weight * max(0, |r - ratio| - margin), r the expected share of entity tokens.

    The expectation is under the marginals of an inference; in the paper, of a CRF (Effland and
    Collins 2021, equation 6). The loss serves partial annotation that marks entities, but never
    tokens outside: a model does not predict entities everywhere. The paper has ratio 0.15, margin
    0.05, weight 10.
    """

    ratio: float
    margin: float = 0.05
    weight: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1:
            raise ValueError(f"entity_ratio.ratio must be between 0 and 1, got {self.ratio}")
        if not 0 <= self.margin < 1:
            raise ValueError(f"entity_ratio.margin must be in [0, 1), got {self.margin}")
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"entity_ratio.weight must be positive, got {self.weight}")

    def loss(
        self, inference: Inference, potentials: Potentials, tags: Array
    ) -> tuple[float, Potentials]:
        """Return the loss of the whole batch and its gradient, in float64.

        inference: its marginals give r; the gradient is a central difference of two inferences,
        that at convergence, see `Inference.differentiate_marginals`. tags: bool (T,), of entity
        tokens.
        """
        double = potentials.astype("float64")
        xp, n_tokens = double.xp, len(double.unary)
        zeros = xp.zeros_like(double.transitions)
        direction = double.with_scores(xp.zeros_like(double.unary), zeros)
        if not n_tokens:
            return 0.0, direction
        share = float(inference.marginals(double).unary[:, tags].sum()) / n_tokens
        excess = abs(share - self.ratio) - self.margin
        if excess <= 0:
            return 0.0, direction
        direction.unary[:, tags] = self.weight * (1 if share > self.ratio else -1) / n_tokens
        return self.weight * excess, inference.differentiate_marginals(double, direction)
