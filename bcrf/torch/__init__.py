"""Structured heads for PyTorch: `CRF`, `BCRF`, `MeanField` and `Unstructured`.

Each is an `nn.Module` with the constructor, methods, parameters and errors of pytorch-crf, and with
the queries of `bcrf.chain`. The functions below take scores in place of a module. Does not
import spaCy.

emissions    (L, B, T), or (B, L, T) with `batch_first`; float32 or float64. float16 and bfloat16
             become float32.
mask         (L, B) or (B, L), nonzero where a token is. Each sequence starts at the first step and
             has no holes. None: all sequences have L tokens. Nothing reads emissions and tags of
             padding, and their gradients are 0.
tags         (L, B) or (B, L) integers, -100 for an unknown tag; or bool (L, B, T) or (B, L, T), the
             allowed tags.
transitions  (T, T), `[from, to]`; or one matrix for each edge, (L, B, T, T) or (B, L, T, T). The
             matrix at step i scores the edge from i to i + 1.
start, end   (T,), scores of the first and the last tag; None for zeros.

A score of -inf forbids a tag or a transition. The kernels read tensors in place; CUDA kernels need
CuPy, and report wrong tags and masks at the next wait. All tensors are on one device and have one
dtype.

`log_likelihood`, `log_partition`, `entropy` and `marginals` are differentiable once. The
derivatives of `entropy` and `marginals` are central differences, see
`chain.Inference.differentiate_marginals`. Before `BCRF` and `MeanField` converge,
derivatives of `log_partition`, `entropy` and `marginals` are approximate. `torch.func` works, and
`torch.vmap` by a loop. `torch.compile` contains `forward` and the queries as operators, TorchScript
`forward` and `decode`.
"""

from bcrf.io.extras import require

require("torch", extra="torch")

from .functional import entropy, log_likelihood, log_partition, marginals, potentials  # noqa: E402
from .modules import BCRF, CRF, MeanField, Unstructured  # noqa: E402

__all__ = [
    "BCRF",
    "CRF",
    "MeanField",
    "Unstructured",
    "entropy",
    "log_likelihood",
    "log_partition",
    "marginals",
    "potentials",
]
