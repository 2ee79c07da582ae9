"""The kernels for CuPy arrays: functions and arguments of `spacy_bcrf.kernels`, after the module.

Nothing waits for the GPU and nothing crosses to the host, but in what `search` runs there.
"""

from .bregman import bregman
from .mean_field import mean_field, mean_field_loss
from .search import add_features, beam_search, dijkstra, gram_matrices, hildreth, nbest, sample
from .sum_product import entropy, pair_marginals, sum_product
from .viterbi import max_product, path_scores

__all__ = [
    "add_features",
    "beam_search",
    "bregman",
    "dijkstra",
    "entropy",
    "gram_matrices",
    "hildreth",
    "max_product",
    "mean_field",
    "mean_field_loss",
    "nbest",
    "pair_marginals",
    "path_scores",
    "sample",
    "sum_product",
]
