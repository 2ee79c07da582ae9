"""Linear-chain structured inference over NumPy and CuPy arrays; knows neither spaCy nor Thinc."""

from .bregman import BCRF
from .crf import CRF
from .fenchel_young import Inference, Marginals
from .mean_field import MeanField
from .objectives import MIRA, SAPO, Perceptron
from .posterior import entropy, kl_divergence, sample
from .potentials import Potentials
from .search import Search, dijkstra, feasible, minimum_risk, nbest, viterbi
from .spans import Spans, SpanTags, span_candidates, span_posteriors
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
    "SpanTags",
    "Spans",
    "Unstructured",
    "dijkstra",
    "entropy",
    "feasible",
    "kl_divergence",
    "minimum_risk",
    "nbest",
    "sample",
    "span_candidates",
    "span_posteriors",
    "viterbi",
]
