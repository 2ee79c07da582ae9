"""Linear-chain structured inference over NumPy and CuPy arrays; knows neither spaCy nor Thinc."""

from .bregman import BCRF
from .crf import CRF
from .fenchel_young import Inference, Marginals
from .mean_field import MeanField
from .objectives import MIRA, SAPO, Perceptron
from .posterior import entropy, kl_divergence, sample
from .potentials import Potentials
from .ratio import ExpectedRatio
from .rejection import Rejection, rejection_loss
from .search import Search, dijkstra, feasible, minimum_risk, nbest, viterbi
from .spans import Spans, SpanTags, span_candidates, span_posteriors
from .unstructured import Unstructured

__all__ = [
    "BCRF",
    "CRF",
    "MIRA",
    "SAPO",
    "ExpectedRatio",
    "Inference",
    "Marginals",
    "MeanField",
    "Perceptron",
    "Potentials",
    "Rejection",
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
    "rejection_loss",
    "sample",
    "span_candidates",
    "span_posteriors",
    "viterbi",
]
