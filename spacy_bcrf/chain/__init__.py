"""Linear-chain structured inference over NumPy and CuPy arrays; knows neither spaCy nor Thinc."""

from .bregman import BCRF
from .crf import CRF
from .fenchel_young import Inference, Marginals
from .potentials import Potentials
from .search import feasible, minimum_risk, viterbi

__all__ = [
    "BCRF",
    "CRF",
    "Inference",
    "Marginals",
    "Potentials",
    "feasible",
    "minimum_risk",
    "viterbi",
]
