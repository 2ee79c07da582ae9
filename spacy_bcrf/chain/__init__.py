"""Linear-chain structured inference over NumPy and CuPy arrays; knows neither spaCy nor Thinc."""

from .bregman import BCRF
from .crf import CRF
from .fenchel_young import Inference, Marginals
from .mean_field import MeanField
from .objectives import MIRA, SAPO, Perceptron
from .potentials import Potentials
from .search import Search, dijkstra, feasible, minimum_risk, nbest, viterbi
from .unstructured import Unstructured

__all__ = [
    "BCRF",
    "CRF",
    "MIRA",
    "SAPO",
    "Inference",
    "Marginals",
    "MeanField",
    "Perceptron",
    "Potentials",
    "Search",
    "Unstructured",
    "dijkstra",
    "feasible",
    "minimum_risk",
    "nbest",
    "viterbi",
]
