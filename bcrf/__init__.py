"""Exact inference and learning for linear-chain sequence labeling, over NumPy and CuPy arrays.

>>> import numpy as np
>>> import bcrf
>>> w = bcrf.Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array([3], dtype="int32"))
>>> bcrf.CRF().log_partition(w).round(3)  # log of 8 labelings
array([2.079])

`bcrf.torch` has layers for PyTorch, `bcrf.sklearn` the interface of sklearn-crfsuite, and
`bcrf.linear` chains over sparse features. The package needs NumPy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # mypy takes span_posteriors for the module of this name.
    from bcrf.chain import (  # type: ignore[no-redef]
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


# spaCy imports the package at each start, for its entry points.
def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("bcrf.chain"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
