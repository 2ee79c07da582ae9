"""Linear-chain structured inference over NumPy and CuPy arrays. Does not import spaCy or Thinc.

The names below are the public ones. `chain.votes` merges the votes of several sources.
"""

from .best_spans import best_spans
from .bregman import BCRF
from .crf import CRF
from .inference import Inference, Marginals
from .list_objectives import MIRA, SAPO, Perceptron
from .mean_field import MeanField
from .posterior import entropy, kl_divergence, sample
from .potentials import Constraints, Potentials
from .search import dijkstra, feasible, minimum_risk, nbest, viterbi
from .span_posteriors import SpanTags, span_candidates, span_posteriors
from .unstructured import Unstructured

__all__ = [
    "BCRF",
    "CRF",
    "MIRA",
    "SAPO",
    "Constraints",
    "Inference",
    "Marginals",
    "MeanField",
    "Perceptron",
    "Potentials",
    "SpanTags",
    "Unstructured",
    "best_spans",
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
