"""Entropy, divergence and samples of the posterior distribution over labelings.

The posterior is the CRF's, p(y) ~ exp <w, y>. For the distribution of another inference, pass the
potentials that `Inference.to_crf` returns.
"""

from __future__ import annotations  # numpy.random takes 10 ms to load

import numpy as np

from bcrf import kernels
from bcrf.kernels import Array

from .crf import CRF
from .inference import expect
from .potentials import Potentials, check_least, finite, raise_infeasible


def entropy(potentials: Potentials) -> Array:
    """Return the entropies (B,) in nats, 0 for an empty sequence. O(N T^2).

    The kernel computes log Z - E[score], which equals the forward pass in the expectation semiring
    (Li and Eisner 2009).

    Raises ValueError naming the first sequence without an allowed labeling.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, entropy
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> entropy(w).round(3).tolist()
    [1.164]
    """
    entropies = kernels.entropy(*potentials.arrays)
    raise_infeasible(entropies, "allowed")
    return entropies


def kl_divergence(p: Potentials, q: Potentials) -> Array:
    """Return the Kullback-Leibler divergences KL(p || q) in nats, (B,).

    p and q score the labelings of the same sequences. The divergence is inf if q forbids a labeling
    that p allows. O(N T^2) time and memory.

    Raises ValueError if sequences or tags differ, and names the first sequence without an allowed
    labeling.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, kl_divergence
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> abs(kl_divergence(w, w)).round(3).tolist()
    [0.0]
    """
    is_alike = p.unary.shape == q.unary.shape and p.lengths.shape == q.lengths.shape
    if not is_alike or not (p.lengths == q.lengths).all():
        raise ValueError(
            f"p and q have different sequences or tags: unary {p.unary.shape} and "
            f"{q.unary.shape}, lengths {_shorten(p.lengths)} and {_shorten(q.lengths)}"
        )
    xp, dtype = p.xp, p.unary.dtype
    # A long text has large scores, and its divergence can be small.
    p, q = p.astype("float64"), q.astype("float64")
    marginals = CRF().marginals(p, edges=True)
    # E_p[log p - log q], score by score, so that equal scores cancel before the sum.
    costs = expect(xp, marginals.unary, p.unary - _finite(xp, q.unary, p.unary))
    at = p.inner_edges
    edges = marginals.edges[at]  # type: ignore[index]
    w_p, w_q = (_edge_scores(potentials, at) for potentials in (p, q))
    costs[at] += expect(xp, edges, w_p - _finite(xp, w_q, w_p))
    total = xp.bincount(p.segment_ids, costs, len(p.lengths))
    finite(xp.where(xp.isposinf(total), 0, total))
    difference = CRF().log_partition(q) - CRF().log_partition(p)
    return (total + difference).clip(min=0).astype(dtype)


def sample(potentials: Potentials, n: int, rng: np.random.Generator) -> Array:
    """Draw n labelings of each sequence from the exact posterior, int32 (n, N).

    Forward filtering and backward sampling, O(N T^2 + n N T). Raises TypeError if rng is no
    Generator, and ValueError for n < 1 and for the first sequence without an allowed labeling.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, sample
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> sample(w, 5, np.random.default_rng(0)).shape
    (5, 2)
    """
    check_least(1, n=n)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a Generator, as numpy.random.default_rng(0), got {rng!r}")
    CRF().log_partition(potentials)
    uniform = potentials.xp.asarray(rng.random((n, len(potentials.unary))))
    return kernels.sample(*potentials.arrays, uniform)


def _edge_scores(potentials: Potentials, edges: Array) -> Array:
    """Transitions of these edges, (edges, T, T), or (1, T, T) if they are shared."""
    if potentials.transitions.ndim == 2:
        return potentials.transitions[None]
    return potentials.transitions[edges]


def _finite(xp: Array, scores: Array, others: Array) -> Array:
    """Replace -inf by 0 if the other score is -inf too, since their difference would be NaN."""
    return xp.where(xp.isneginf(scores) & xp.isneginf(others), 0, scores)


def _shorten(lengths: Array) -> str:
    head = ", ".join(str(length) for length in lengths[:5].tolist())
    return f"[{head}{', ...' if len(lengths) > 5 else ''}]"
