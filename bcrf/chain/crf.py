"""The linear-chain conditional random field."""

from dataclasses import dataclass

from bcrf import kernels
from bcrf.kernels import Array, Edges, Result

from .inference import Inference, Side
from .potentials import Potentials
from .search import viterbi


@dataclass(frozen=True)
class CRF(Inference):
    """Exact inference in a linear-chain CRF (Lafferty et al. 2001).

    The forward-backward algorithm computes A(w) = log sum_y exp <w, y> and the marginals; Viterbi
    decodes. O(N T^2) time.

    >>> import numpy as np
    >>> from bcrf.chain import CRF, Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> gold = np.array([0, 1], dtype="int32")
    >>> losses, gradient = CRF().loss(w, gold)
    >>> losses.round(3).tolist()
    [0.627]
    >>> CRF().decode(w).tolist()
    [0, 1]
    """

    def infer(self, potentials: Potentials, edges: Edges = "none", bound: Side = "upper") -> Result:
        return kernels.sum_product(*potentials.arrays, edges=edges)

    def values(self, potentials: Potentials) -> Array:
        return kernels.sum_product(*potentials.arrays, marginals=False).value

    def fused_loss(self, potentials: Potentials, gold: Array) -> Result | None:
        return kernels.fused_loss(*potentials.arrays, gold)

    def to_crf(self, potentials: Potentials) -> Potentials:
        """Return the potentials themselves."""
        return potentials

    def backprop_to_crf(self, potentials: Potentials, d_chain: Potentials) -> Potentials:
        d_transitions = d_chain.transitions
        if potentials.transitions.ndim == 2:
            d_transitions = d_transitions.sum(axis=0)
        return d_chain.with_scores(d_chain.unary, d_transitions)

    def decode(self, potentials: Potentials) -> Array:
        """Return the most probable labeling, int32 (N,)."""
        return viterbi(potentials)[0]
