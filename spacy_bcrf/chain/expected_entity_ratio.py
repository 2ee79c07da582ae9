"""The expected entity ratio loss (Effland and Collins 2021)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array

from .crf import CRF
from .inference import unary_and_edges
from .potentials import Potentials

# Step of the central difference in float64. A probability's error is of the order of its square.
_STEP = 1e-3


@dataclass(frozen=True)
class ExpectedEntityRatio:
    """weight * max(0, |r - ratio| - margin), r the expected share of entity tokens.

    The expectation is under the CRF (Effland and Collins 2021, equation 6). The loss serves partial
    annotation that marks entities, but never tokens outside of entities. It keeps a model from
    predicting entities everywhere. The paper has ratio 0.15, margin 0.05 and weight 10.
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

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> ExpectedEntityRatio:
        """Build the loss from a config block.

        Raises ValueError for an unknown option, a missing ratio or a value that is not a number.
        """
        names = [field.name for field in fields(cls)]
        is_block = isinstance(options, dict) and "ratio" in options and set(options) <= set(names)
        if not is_block or not all(isinstance(value, (int, float)) for value in options.values()):
            raise ValueError(
                f"entity_ratio must have the numbers {', '.join(names)}, got {options}"
            )
        return cls(**options)

    def loss(self, potentials: Potentials, tags: Array) -> tuple[float, Potentials]:
        """Return the loss of the whole batch and its gradient.

        tags: bool (T,), the tags of entity tokens.

        The gradient of r is the derivative of the marginals as the scores of `tags` grow: a central
        difference of two forward-backward passes. The computation and the gradient are in float64.
        """
        # float32 would lose most digits in the difference of two nearly equal marginals.
        double = potentials.astype("float64")
        xp, n_tokens = double.xp, len(double.unary)
        d_unary, d_transitions = (xp.zeros_like(a) for a in (double.unary, double.transitions))
        gradient = double.with_scores(d_unary, d_transitions)
        if not n_tokens:
            return 0.0, gradient
        share = float(CRF().marginals(double).unary[:, tags].sum()) / n_tokens
        excess = abs(share - self.ratio) - self.margin
        if excess <= 0:
            return 0.0, gradient
        edges: kernels.Edges = "sum" if double.transitions.ndim == 2 else "each"
        for step in (_STEP, -_STEP):
            moved = double.with_scores(double.unary + step * tags, double.transitions)
            moved_unary, moved_edges = unary_and_edges(CRF().infer(moved, edges))
            scale = self.weight * (1 if share > self.ratio else -1) / (2 * step * n_tokens)
            d_unary += scale * moved_unary
            d_transitions += scale * moved_edges
        return self.weight * excess, gradient
