"""Linear-chain structured inference over NumPy and CuPy arrays; knows neither spaCy nor Thinc."""

from .bregman import BCRF
from .crf import CRF
from .expected_entity_ratio import ExpectedEntityRatio
from .inference import Inference, Marginals
from .list_objectives import MIRA, SAPO, Perceptron
from .mean_field import MeanField
from .posterior import entropy, kl_divergence, sample
from .potentials import Potentials
from .search import Search, dijkstra, feasible, minimum_risk, nbest, viterbi
from .span_posteriors import Spans, SpanTags, span_candidates, span_posteriors
from .unlikelihood import Rejection, unlikelihood_loss
from .unstructured import Unstructured

__all__ = [
    "BCRF",
    "CRF",
    "MIRA",
    "SAPO",
    "ExpectedEntityRatio",
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
    "sample",
    "span_candidates",
    "span_posteriors",
    "unlikelihood_loss",
    "viterbi",
]
