"""The linear-chain conditional random field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array

from .inference import Inference
from .potentials import Potentials
from .search import viterbi


@dataclass(frozen=True)
class CRF(Inference):
    """A(w) = log sum_y exp <w, y>, exactly, by the forward-backward algorithm; MAP by Viterbi.

    O(N T^2) time.
    """

    def infer(
        self,
        potentials: Potentials,
        edges: kernels.Edges = "none",
        bound: Literal["upper", "lower"] = "upper",
        marginals: bool = True,
    ) -> kernels.Result:
        return kernels.sum_product(
            potentials.unary,
            potentials.transitions,
            potentials.lengths,
            edges=edges,
            marginals=marginals,
        )

    def decode(self, potentials: Potentials) -> Array:
        """int32 (N,): the most probable labeling."""
        return viterbi(potentials)[0]
