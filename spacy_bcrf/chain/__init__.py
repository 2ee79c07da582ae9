"""Linear-chain structured inference over NumPy and CuPy arrays. Does not import spaCy or Thinc."""

from .bregman import BCRF
from .crf import CRF
from .distillation import distillation_loss, rename_tags
from .expected_entity_ratio import ExpectedEntityRatio
from .gold import path_scores
from .inference import Inference, Marginals
from .list_objectives import MIRA, SAPO, Perceptron
from .mean_field import MeanField
from .posterior import entropy, kl_divergence, sample
from .potentials import Constraints, NotFiniteError, Potentials, boundaries, raise_deferred
from .search import Search, dijkstra, feasible, minimum_risk, nbest, nbest_arrays, viterbi
from .span_posteriors import (
    Spans,
    SpanTags,
    span_candidates,
    span_posteriors,
    stretch_posteriors,
)
from .unlikelihood import Rejection, unlikelihood_loss
from .unstructured import Unstructured

__all__ = [
    "BCRF",
    "CRF",
    "MIRA",
    "SAPO",
    "Constraints",
    "ExpectedEntityRatio",
    "Inference",
    "Marginals",
    "MeanField",
    "NotFiniteError",
    "Perceptron",
    "Potentials",
    "Rejection",
    "Search",
    "SpanTags",
    "Spans",
    "Unstructured",
    "boundaries",
    "dijkstra",
    "distillation_loss",
    "entropy",
    "feasible",
    "kl_divergence",
    "minimum_risk",
    "nbest",
    "nbest_arrays",
    "path_scores",
    "raise_deferred",
    "rename_tags",
    "sample",
    "span_candidates",
    "span_posteriors",
    "stretch_posteriors",
    "unlikelihood_loss",
    "viterbi",
]
