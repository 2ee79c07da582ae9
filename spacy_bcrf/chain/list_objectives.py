"""Objectives on a list of the best labelings: SAPO, the structured perceptron and MIRA.

They have the one method of an objective, `loss(potentials, gold)`. What gold leaves open is filled
in: the labeling learned is the best one that gold allows. A sequence of which gold says nothing has
loss and gradient zero. ValueError names the first sequence whose gold labelings are all forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .gold import (
    allowed_tags,
    check_gold,
    is_complete,
    path_scores,
    raise_infeasible,
    unknown_sequences,
)
from .potentials import Potentials
from .search import Search, check_search, nbest_arrays


@dataclass(frozen=True)
class SAPO:
    """Search-based probabilistic online learning (Sun et al., Algorithm 1).

    The loss is log sum_k exp(score of the k-th best labeling) - score of gold. Its gradient is
    sum_k P_k F(y_k) - F(gold), P the softmax of the n best scores: with n = 1 the structured
    perceptron's update, with all labelings that of a CRF. Where gold is not among the n best the
    loss is no log-loss of it; and since the sum then lacks gold's term the loss may become negative
    when the search is inexact.

    n: labelings searched for; search, beam_width: see `nbest`.
    """

    n: int = 5
    search: Search = "astar"
    beam_width: int = 50

    def __post_init__(self) -> None:
        check_search(self.n, self.search, self.beam_width)

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Losses (B,) and their gradient, the list of labelings taken as given."""
        target = _target(potentials, gold)
        tags, scores = nbest_arrays(potentials, self.n, self.search, self.beam_width)
        xp = array_module(scores)
        best = scores[:, :1]
        p = xp.exp(scores - best)
        total = p.sum(axis=1, keepdims=True)
        losses = (best + xp.log(total))[:, 0] - target.scores
        losses[target.unknown] = 0
        return losses, _gradient(potentials, target, tags, p / total)


@dataclass(frozen=True)
class Perceptron:
    """The structured perceptron (Collins 2002): best score less gold's, its gradient
    F(best labeling) - F(gold). Averaging is the optimizer's (`use_averages`)."""

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Losses (B,) >= 0 and their gradient, the best labeling taken as given."""
        return SAPO(n=1).loss(potentials, gold)


@dataclass(frozen=True)
class MIRA:
    """The margin-infused relaxed algorithm, 1-best and n-best (Crammer and Singer 2003, McDonald et
    al. 2005): the smallest change of the potentials that scores gold above each of the n best
    labelings by its Hamming cost, as far as a slack priced at C allows.

    The gradient is that change, negated: an optimizer that steps by -gradient with rate 1 makes
    MIRA's update. It is at the same time the gradient of the loss, which is the value of the
    problem that the change solves, min over d of |d|^2 / 2 + C sum_k slack_k(potentials + d), by
    Hildreth's method. The change is the smallest in the space of potentials; where these come from
    a network it is passed on to its weights by the chain rule.

    Cost counts the tokens whose tag gold does not allow.

    n: labelings searched for; aggressiveness: C, the most that one labeling's step may be;
    search, beam_width: see `nbest`.
    """

    n: int = 1
    aggressiveness: float = 1.0
    search: Search = "astar"
    beam_width: int = 50

    def __post_init__(self) -> None:
        check_search(self.n, self.search, self.beam_width)
        if not 0 < self.aggressiveness < float("inf"):
            raise ValueError(
                f"aggressiveness must be positive and finite, got {self.aggressiveness}"
            )

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Losses (B,) >= 0 and their gradient, the list of labelings taken as given."""
        target = _target(potentials, gold)
        tags, scores = nbest_arrays(potentials, self.n, self.search, self.beam_width)
        xp = array_module(scores)
        missing = xp.isneginf(scores)
        margins = target.scores[:, None].astype("float64") - xp.where(missing, 0, scores)
        violations = xp.where(missing, -xp.inf, _costs(potentials, target, tags) - margins)
        products = kernels.gram_matrices(
            xp.concatenate([target.tags[None], tags]),
            potentials.lengths,
            potentials.unary.shape[1],
            potentials.transitions.ndim == 2,
        )
        gold_products = products[:, :1, 1:]
        gram = (
            products[:, 1:, 1:]
            + products[:, :1, :1]
            - gold_products
            - gold_products.transpose(0, 2, 1)
        )
        steps = kernels.hildreth(violations, gram, self.aggressiveness)
        quadratic = (steps[:, None] * gram * steps[:, :, None]).sum(axis=(1, 2))
        losses = (steps * xp.where(missing, 0, violations)).sum(axis=1) - quadratic / 2
        losses[target.unknown] = 0
        return losses.astype(scores.dtype), _gradient(potentials, target, tags, steps)


class _Target(NamedTuple):
    """The labeling to learn, int32 (N,), its score (B,), what gold allows, bool (N, T), or None if
    only that labeling; and of which sequences nothing is known (B,)."""

    tags: Array
    scores: Array
    allowed: Array | None
    unknown: Array


def _target(potentials: Potentials, gold: Array) -> _Target:
    gold = check_gold(potentials, gold)
    if is_complete(gold):
        scores = path_scores(potentials, gold)
        raise_infeasible(scores, "gold")
        return _Target(gold, scores, None, potentials.lengths == 0)
    allowed = allowed_tags(potentials, gold)
    restricted = potentials.restrict(allowed)
    tags, scores = kernels.max_product(restricted.unary, restricted.transitions, restricted.lengths)
    raise_infeasible(scores, "gold")
    return _Target(tags, scores, allowed, unknown_sequences(potentials, gold))


def _gradient(potentials: Potentials, target: _Target, tags: Array, weights: Array) -> Potentials:
    """sum_k weights[k] (F(y_k) - F(gold)), zero where nothing is known."""
    xp = array_module(tags)
    node = xp.zeros_like(potentials.unary)
    edge = xp.zeros_like(potentials.transitions)
    weights = xp.where(target.unknown[:, None], 0, weights)
    weights = xp.concatenate([weights, -weights.sum(axis=1, keepdims=True)], axis=1)
    kernels.add_features(
        xp.concatenate([tags, target.tags[None]]),
        xp.ascontiguousarray(weights, dtype=node.dtype),
        potentials.lengths,
        node,
        edge,
    )
    return Potentials.unchecked(node, edge, potentials.lengths)


def _costs(potentials: Potentials, target: _Target, tags: Array) -> Array:
    """(B, n): how many tags of each labeling gold does not allow."""
    xp = array_module(tags)
    if target.allowed is None:
        wrong = tags != target.tags
    else:
        wrong = ~target.allowed[xp.arange(tags.shape[1]), tags]
    sums = xp.zeros((tags.shape[0], tags.shape[1] + 1), dtype="int64")
    sums[:, 1:] = wrong.cumsum(axis=1)
    stops = potentials.lengths.cumsum()
    return (sums[:, stops] - sums[:, stops - potentials.lengths]).T
