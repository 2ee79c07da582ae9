"""Exact inference and learning for linear-chain sequence labeling, over NumPy and CuPy arrays.

>>> import numpy as np
>>> import bcrf
>>> w = bcrf.Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array([3], dtype="int32"))
>>> bcrf.CRF().log_partition(w).round(3)  # log of 8 labelings
array([2.079])

`bcrf.torch` has layers for PyTorch, `bcrf.sklearn` the interface of sklearn-crfsuite, and
`bcrf.linear` chains over sparse features. The package needs NumPy alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bcrf.chain import BCRF as BCRF
    from bcrf.chain import CRF as CRF
    from bcrf.chain import MIRA as MIRA
    from bcrf.chain import SAPO as SAPO
    from bcrf.chain import Constraints as Constraints
    from bcrf.chain import Inference as Inference
    from bcrf.chain import Marginals as Marginals
    from bcrf.chain import MeanField as MeanField
    from bcrf.chain import Perceptron as Perceptron
    from bcrf.chain import Potentials as Potentials
    from bcrf.chain import SpanTags as SpanTags
    from bcrf.chain import Unstructured as Unstructured
    from bcrf.chain import dijkstra as dijkstra
    from bcrf.chain import entropy as entropy
    from bcrf.chain import feasible as feasible
    from bcrf.chain import kl_divergence as kl_divergence
    from bcrf.chain import minimum_risk as minimum_risk
    from bcrf.chain import nbest as nbest
    from bcrf.chain import sample as sample
    from bcrf.chain import span_candidates as span_candidates
    from bcrf.chain import span_posteriors as span_posteriors
    from bcrf.chain import viterbi as viterbi

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
        from bcrf import chain

        return getattr(chain, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
