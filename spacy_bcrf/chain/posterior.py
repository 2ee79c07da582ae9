"""The distribution over labelings that potentials define: entropy, divergence and samples.

It is the CRF's, p(y) ~ exp <w, y>, with whatever objective the potentials were learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .crf import CRF
from .gold import raise_infeasible
from .potentials import Potentials

if TYPE_CHECKING:
    from numpy.random import Generator


def entropy(potentials: Potentials) -> Array:
    """(B,) entropies in nats, 0 for an empty sequence.

    What the expectation semiring's forward pass gives (Li and Eisner 2009; `semirings`), computed
    as log Z - E[score]. O(N T^2).
    Raises ValueError naming the first sequence without an allowed labeling.
    """
    entropies = kernels.entropy(potentials.unary, potentials.transitions, potentials.lengths)
    raise_infeasible(entropies, "allowed")
    return entropies


def kl_divergence(p: Potentials, q: Potentials) -> Array:
    """(B,) Kullback-Leibler divergences KL(p || q) in nats between the labelings of the same
    sequences under two models; inf where q forbids what p does not. O(N T^2) time and memory.

    Raises ValueError if they are not of the same sequences and tags, or naming the first sequence
    without an allowed labeling.
    """
    xp = array_module(p.unary)
    is_alike = p.unary.shape == q.unary.shape and p.lengths.shape == q.lengths.shape
    if not is_alike or not (p.lengths == q.lengths).all():
        raise ValueError(
            f"p and q are of different sequences or tags: unary {p.unary.shape} and "
            f"{q.unary.shape}, lengths {_shorten(p.lengths)} and {_shorten(q.lengths)}"
        )
    dtype = p.unary.dtype
    # The scores of a whole text are large, and its divergence can be small.
    p, q = (
        Potentials(x.unary.astype("float64"), x.transitions.astype("float64"), x.lengths)
        for x in (p, q)
    )
    marginals = CRF().marginals(p, edges=True)
    # E_p[log p - log q], score by score, so that what both share cancels before it is summed.
    costs = _expected(xp, marginals.unary, p.unary - _finite(xp, q.unary, p.unary))
    heads = p.inner_edges
    edges = marginals.edges[heads]  # type: ignore[index]
    w_p, w_q = (_edge_scores(potentials, heads) for potentials in (p, q))
    costs[heads] += _expected(xp, edges, w_p - _finite(xp, w_q, w_p))
    total = xp.bincount(p.segment_ids, costs, len(p.lengths))
    difference = CRF().log_partition(q) - CRF().log_partition(p)
    return (total + difference).clip(min=0).astype(dtype)


def sample(potentials: Potentials, n: int, rng: Generator) -> Array:
    """n labelings of each sequence, int32 (n, N), drawn from their exact posterior.

    By forward filtering and backward sampling, O(N T^2 + n N T).
    Raises ValueError for n < 1, or naming the first sequence without an allowed labeling.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    CRF().log_partition(potentials)
    xp = array_module(potentials.unary)
    uniform = xp.asarray(rng.random((n, len(potentials.unary))))
    arrays = potentials.unary, potentials.transitions, potentials.lengths
    return kernels.sample(*arrays, uniform)


def _edge_scores(potentials: Potentials, heads: Array) -> Array:
    """(edges, T, T) or, shared, (1, T, T)."""
    if potentials.transitions.ndim == 2:
        return potentials.transitions[None]
    return potentials.transitions[heads]


def _finite(xp: Array, scores: Array, others: Array) -> Array:
    """-inf - -inf is nothing: what both forbid has no part in the sum."""
    return xp.where(xp.isneginf(scores) & xp.isneginf(others), 0, scores)


def _expected(xp: Array, probabilities: Array, values: Array) -> Array:
    """Sums over all axes but the first, float64; what has no probability counts nothing."""
    products = xp.where(probabilities > 0, probabilities, 0) * xp.where(
        probabilities > 0, values, 0
    )
    return products.sum(axis=tuple(range(1, products.ndim)), dtype="float64")


def _shorten(lengths: Array) -> str:
    head = ", ".join(str(length) for length in lengths[:5].tolist())
    return f"[{head}{', ...' if len(lengths) > 5 else ''}]"
