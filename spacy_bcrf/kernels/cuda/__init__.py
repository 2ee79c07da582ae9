"""The kernels for CuPy arrays: functions and arguments of `spacy_bcrf.kernels`, after the module.

Nothing waits for the GPU, and nothing crosses to the host, but in the searches that say so.
"""

from .bregman import bregman
from .mean_field import mean_field, mean_field_loss
from .sum_product import entropy, pair_marginals, sum_product
from .viterbi import max_product, path_scores

__all__ = [
    "bregman",
    "entropy",
    "max_product",
    "mean_field",
    "mean_field_loss",
    "pair_marginals",
    "path_scores",
    "sum_product",
]
