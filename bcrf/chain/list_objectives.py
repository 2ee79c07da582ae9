"""Objectives on the n-best list: SAPO, the structured perceptron and MIRA.

Each objective has one method, `loss(potentials, gold)`. `gold` is int32 (N,) with -1 for unknown,
or bool (N, T) of allowed tags. Under partial annotation the target is the best labeling that gold
allows. Loss and gradient of a sequence without annotation are zero. ValueError names the first
sequence whose gold labelings are all forbidden.
"""

from dataclasses import dataclass

from bcrf import kernels
from bcrf.kernels import Array

from .gold import GoldLattice
from .potentials import Potentials, check_positive, finite, raise_infeasible
from .search import Search, check_search, nbest_arrays


@dataclass(frozen=True)
class SAPO:
    """Search-based probabilistic online learning (Sun et al., Algorithm 1).

    The loss is log sum_k exp(score of the k-th best labeling) - score of gold. Its gradient is
    sum_k P_k F(y_k) - F(gold), P the softmax of the n best scores. With n = 1 it is the structured
    perceptron's update, with all labelings the CRF's gradient.

    If gold is not in the list, the loss is not a log-loss. With an inexact search it can then be
    negative.

    n: length of the list. search, beam_width: see `nbest`.

    >>> import numpy as np
    >>> from bcrf.chain import SAPO, Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> gold = np.array([0, 1], dtype="int32")
    >>> losses, gradient = SAPO(n=2).loss(w, gold)
    >>> losses.round(3).tolist()
    [0.313]
    """

    n: int = 5
    search: Search = "astar"
    beam_width: int = 50

    def __post_init__(self) -> None:
        check_search(self.n, self.search, self.beam_width)

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return the losses (B,) and their gradient for a fixed list of labelings."""
        lattice = GoldLattice(potentials, gold)
        target, target_scores = lattice.best()
        raise_infeasible(target_scores, "gold")
        tags, scores = nbest_arrays(potentials, self.n, self.search, self.beam_width)
        xp = potentials.xp
        best = scores[:, :1]
        p = xp.exp(scores - best)
        total = p.sum(axis=1, keepdims=True)
        losses = (best + xp.log(total))[:, 0] - target_scores
        losses[lattice.unknown] = 0
        return finite(losses), _gradient(potentials, lattice, target, tags, p / total)


@dataclass(frozen=True)
class Perceptron:
    """The structured perceptron (Collins 2002).

    The loss is the best score minus gold's score, its gradient F(best labeling) - F(gold). The
    optimizer averages the weights (`use_averages`).

    >>> import numpy as np
    >>> from bcrf.chain import Perceptron, Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> gold = np.array([0, 1], dtype="int32")
    >>> losses, gradient = Perceptron().loss(w, 1 - gold)
    >>> losses.tolist()
    [2.0]
    """

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return the losses (B,) >= 0 and their gradient for a fixed best labeling."""
        return SAPO(n=1).loss(potentials, gold)


@dataclass(frozen=True)
class MIRA:
    """The margin-infused relaxed algorithm on the n-best list (McDonald et al. 2005).

    MIRA (Crammer and Singer 2003) finds the smallest change d of the potentials that puts gold
    above each of the n best labelings by a margin. The margin is the labeling's Hamming cost:
    the number of tags that gold does not allow. Slack costs C per unit.

    The loss is min over d of |d|^2 / 2 + C sum_k slack_k(potentials + d), solved by Hildreth's
    method. Its gradient is -d, so a step of -gradient with learning rate 1 is MIRA's update. The
    change is the smallest in the space of potentials. A network receives it by back-propagation.

    n: length of the list. aggressiveness: C, the upper bound of each labeling's step.
    search, beam_width: see `nbest`.

    >>> import numpy as np
    >>> from bcrf.chain import MIRA, Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> gold = np.array([0, 1], dtype="int32")
    >>> losses, gradient = MIRA().loss(w, 1 - gold)
    >>> losses.round(3).tolist()
    [1.333]
    """

    n: int = 1
    aggressiveness: float = 1.0
    search: Search = "astar"
    beam_width: int = 50

    def __post_init__(self) -> None:
        check_search(self.n, self.search, self.beam_width)
        check_positive(aggressiveness=self.aggressiveness)

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return the losses (B,) >= 0 and their gradient for a fixed list of labelings."""
        lattice = GoldLattice(potentials, gold)
        target, target_scores = lattice.best()
        raise_infeasible(target_scores, "gold")
        tags, scores = nbest_arrays(potentials, self.n, self.search, self.beam_width)
        xp = potentials.xp
        missing = xp.isneginf(scores)
        margins = target_scores[:, None].astype("float64") - xp.where(missing, 0, scores)
        costs = _hamming_costs(potentials, lattice, tags)
        violations = xp.where(missing, -xp.inf, costs - margins)
        products = kernels.gram_matrices(
            xp.concatenate([target[None], tags]),
            potentials.lengths,
            potentials.unary.shape[1],
            potentials.transitions.ndim == 2,
        )
        # Products of the differences F(gold) - F(y_k).
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
        losses[lattice.unknown] = 0
        losses = finite(losses.astype(scores.dtype))
        return losses, _gradient(potentials, lattice, target, tags, steps)


def _gradient(
    potentials: Potentials, lattice: GoldLattice, target: Array, tags: Array, weights: Array
) -> Potentials:
    """sum_k weights[k] (F(y_k) - F(target)), zero in sequences without annotation."""
    xp = potentials.xp
    d_unary = xp.zeros_like(potentials.unary)
    d_transitions = xp.zeros_like(potentials.transitions)
    weights = xp.where(lattice.unknown[:, None], 0, weights)
    weights = xp.concatenate([weights, -weights.sum(axis=1, keepdims=True)], axis=1)
    kernels.add_features(
        xp.concatenate([tags, target[None]]),
        xp.ascontiguousarray(weights, dtype=d_unary.dtype),
        potentials.lengths,
        d_unary,
        d_transitions,
    )
    return potentials.with_scores(d_unary, d_transitions)


def _hamming_costs(potentials: Potentials, lattice: GoldLattice, tags: Array) -> Array:
    """Number of tags that gold does not allow in each labeling, (B, n)."""
    xp, lengths = potentials.xp, potentials.lengths
    wrong = ~lattice.allowed[xp.arange(tags.shape[1]), tags]
    sums = xp.zeros((tags.shape[0], tags.shape[1] + 1), dtype="int64")
    sums[:, 1:] = wrong.cumsum(axis=1)
    stops = lengths.cumsum()
    return (sums[:, stops] - sums[:, stops - lengths]).T
