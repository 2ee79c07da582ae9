"""Cross-entropy against a distribution over labelings: soft gold, such as a teacher's marginals."""

from bcrf.kernels import Array, array_module

from .crf import CRF
from .inference import Inference, Marginals, expect
from .potentials import Potentials, finite, raise_infeasible


def distillation_loss(
    inference: Inference, potentials: Potentials, target: Marginals
) -> tuple[Array, Potentials]:
    """Return the losses (B,), -E[log p(y)] for y drawn from a target, and their gradient.

    p is the inference's own distribution, `inference.to_crf`: a chain with potentials c. The
    expected score needs only the target's marginals mu, so the loss is A(c) - <c, mu>, and its
    gradient in c is the marginals of p minus mu, for every target (Hinton et al. 2015 on
    classifiers; Wang et al. 2020, "Structure-level knowledge distillation", on chains). The loss
    exceeds the divergence KL(target || p) by the target's entropy. The gradient in the potentials
    is exact for a CRF and for independent tags, and that at convergence for others, see
    `backprop_to_crf`.

    target: marginals with edges (N, T, T), such as `CRF().marginals(teacher, edges=True)`. If those
    of a token or an edge sum to less than 1, p's own fill the rest, which teaches nothing.
    O(N T^2) time and memory. Raises ValueError for a target of other sequences or tags, and names
    the first sequence whose potentials forbid a labeling that has probability in the target.
    """
    n, t = potentials.unary.shape
    edges = target.edges
    if edges is None or target.unary.shape != (n, t) or edges.shape != (n, t, t):
        found = None if edges is None else edges.shape
        raise ValueError(
            f"the target must have marginals {(n, t)} and edge marginals {(n, t, t)}, got "
            f"{target.unary.shape} and {found}"
        )
    chain = inference.to_crf(potentials)
    free = CRF().infer(chain, "each")
    assert free.unary is not None and free.edges is not None
    raise_infeasible(free.value, "allowed")
    rest = 1 - target.unary.sum(axis=1)
    if (rest > 1e-3).any():
        edges = edges + (1 - edges.sum(axis=(1, 2)))[:, None, None] * free.edges
        target = Marginals(target.unary + rest[:, None] * free.unary, edges)
    scores = _expected_scores(chain, target.unary, edges)
    forbidden = chain.xp.isneginf(scores)
    if forbidden.any():
        raise ValueError(
            f"sequence {int(forbidden.argmax())}: the target has labelings that -inf forbids"
        )
    losses = finite((free.value - scores).clip(min=0).astype(potentials.unary.dtype))
    d_chain = chain.with_scores(free.unary - target.unary, free.edges - edges)
    gradient = inference.backprop_to_crf(potentials, d_chain)
    return losses, gradient.astype(str(potentials.unary.dtype))


def _expected_scores(potentials: Potentials, unary: Array, edges: Array) -> Array:
    """Return the expected scores (B,) under marginals, -inf if one of them is forbidden."""
    xp, at = potentials.xp, potentials.inner_edges
    by_token = expect(xp, unary, potentials.unary)
    edges = edges[at].reshape(len(at), unary.shape[1] ** 2)
    transitions = potentials.transitions
    # A matrix times a vector takes a third of the time of a product by edge.
    if transitions.ndim == 2:
        forbidden = xp.isneginf(transitions).ravel()
        of_edges = edges @ xp.where(forbidden, 0, transitions.ravel())
        of_edges[(edges[:, forbidden] > 0).any(axis=1)] = -xp.inf
    else:
        of_edges = expect(xp, edges, transitions[at].reshape(edges.shape))
    by_token[at] += of_edges
    return xp.bincount(potentials.segment_ids, by_token, len(potentials.lengths))


def rename_tags(marginals: Marginals, tags: Array, n_tags: int) -> Marginals:
    """Return the marginals of labelings in which some tokens get a known tag. O(N n_tags^2).

    marginals: of labelings z with T tags, with edges. tags: int32 (N,), the tag y of a token, in
    [0, n_tags), whatever z is, or -1 for a token with y = z. n_tags: at least T. An edge between a
    renamed token and another one has the marginals of the other one.
    """
    assert marginals.edges is not None
    n, t = marginals.unary.shape
    xp, dtype = array_module(marginals.unary), marginals.unary.dtype
    unary, edges = xp.zeros((n, n_tags), dtype=dtype), xp.zeros((n, n_tags, n_tags), dtype=dtype)
    unary[:, :t], edges[:, :t, :t] = marginals.unary, marginals.edges
    at = xp.flatnonzero(tags >= 0)
    unary[at] = 0
    unary[at, tags[at]] = 1
    sums = edges[at].sum(axis=1)
    edges[at] = 0
    edges[at, tags[at]] = sums
    before, renamed = at[at > 0] - 1, tags[at[at > 0]]
    sums = edges[before].sum(axis=2)
    edges[before] = 0
    edges[before, :, renamed] = sums
    return Marginals(unary, edges)
