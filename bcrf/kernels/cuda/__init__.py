"""The kernels for CuPy arrays. docs/gpu.md says what a GPU has shown; tests run them on the host.

Each function imported here is a kernel of `bcrf.kernels`, with the array module as first
argument. Kernels do not wait for the GPU and do not copy to the host. The exceptions are the
kernels that `labelings` runs on the host, and `take_errors`.
"""

from .errors import take_errors as take_errors
from .forward_backward import entropy as entropy
from .forward_backward import pair_marginals as pair_marginals
from .forward_backward import sum_product as sum_product
from .forward_backward import sum_product_loss as sum_product_loss
from .labelings import add_features as add_features
from .labelings import beam_search as beam_search
from .labelings import dijkstra as dijkstra
from .labelings import gram_matrices as gram_matrices
from .labelings import hildreth as hildreth
from .labelings import nbest as nbest
from .labelings import path_scores as path_scores
from .labelings import sample as sample
from .mean_field_updates import mean_field as mean_field
from .mean_field_updates import mean_field_loss as mean_field_loss
from .projections import bregman as bregman
from .projections import bregman_loss as bregman_loss
from .viterbi import max_product as max_product
