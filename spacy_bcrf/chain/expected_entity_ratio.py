"""The expected share of some tags, as an objective: how much of a corpus is entities."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .crf import CRF
from .inference import unary_and_edges
from .potentials import Potentials

# Of the central difference, in float64: the error of a probability is of the order of its square.
_STEP = 1e-3


@dataclass(frozen=True)
class ExpectedEntityRatio:
    """weight * max(0, |r - ratio| - margin), r the expected share of tokens with one of some tags
    under the CRF (Effland and Collins 2021, the expected entity ratio loss, equation 6).

    For annotation that says where entities are and never where none are: it keeps a model from
    finding them everywhere. The paper has ratio 0.15, margin 0.05 and weight 10.
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
        """ValueError for other options than the fields, or values that are no numbers."""
        names = [field.name for field in fields(cls)]
        wrong = [name for name, value in options.items() if not isinstance(value, (int, float))]
        if "ratio" not in options or set(options) - set(names) or wrong:
            raise ValueError(f"entity_ratio has the numbers {', '.join(names)}, got {options}")
        return cls(**options)

    def loss(self, potentials: Potentials, tags: Array) -> tuple[float, Potentials]:
        """The loss of a whole batch, and its gradient. tags: bool (T,) those that are counted.

        The gradient of an expectation is the marginals' change in the direction of what is counted:
        two forward-backward passes in float64.
        """
        xp = array_module(potentials.unary)
        n_tokens = len(potentials.unary)
        double = Potentials(
            potentials.unary.astype("float64"),
            potentials.transitions.astype("float64"),
            potentials.lengths,
        )
        # The difference of numbers that are nearly the same: float32 would keep little of it.
        node, edge = (xp.zeros_like(a) for a in (double.unary, double.transitions))
        gradient = Potentials(node, edge, potentials.lengths)
        if not n_tokens:
            return 0.0, gradient
        share = float(CRF().marginals(double).unary[:, tags].sum()) / n_tokens
        excess = abs(share - self.ratio) - self.margin
        if excess <= 0:
            return 0.0, gradient
        edges: kernels.Edges = "sum" if double.transitions.ndim == 2 else "each"
        for step in (_STEP, -_STEP):
            moved = Potentials(double.unary + step * tags, double.transitions, double.lengths)
            moved_node, moved_edge = unary_and_edges(CRF().infer(moved, edges))
            scale = self.weight * (1 if share > self.ratio else -1) / (2 * step * n_tokens)
            node += scale * moved_node
            edge += scale * moved_edge
        return self.weight * excess, gradient
