"""Exact inference and learning for linear-chain sequence labeling, over NumPy and CuPy arrays.

>>> import numpy as np
>>> import bcrf
>>> w = bcrf.Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array([3], dtype="int32"))
>>> bcrf.CRF().log_partition(w).round(3)  # log of 8 labelings
array([2.079])

`bcrf.torch` has layers for PyTorch, `bcrf.sklearn` the interface of sklearn-crfsuite, and
`bcrf.linear` chains over sparse features. The package needs NumPy alone.
"""

from bcrf.chain import (
    BCRF,
    CRF,
    MIRA,
    SAPO,
    Constraints,
    Inference,
    Marginals,
    MeanField,
    Perceptron,
    Potentials,
    SpanTags,
    Unstructured,
    dijkstra,
    entropy,
    feasible,
    kl_divergence,
    minimum_risk,
    nbest,
    sample,
    span_candidates,
    span_posteriors,
    viterbi,
)

__version__ = "0.3.0"

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
    "__version__",
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
