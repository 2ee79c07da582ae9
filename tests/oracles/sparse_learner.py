"""Online learning in plain NumPy: dense weights, enumerated labelings.

Each step regularizes all weights, and adds all weights to the sum for the average.
"""

from itertools import pairwise, product

import numpy as np

from bcrf.chain import Potentials
from bcrf.kernels import BregmanOptions

from .reference import bregman
from .reference_mean_field import mean_field_loss


class Reference:
    """The online learner of `bcrf.linear.learner`, one sequence at a time.

    w: (T + 3 + F, T) weights of transitions, bias, start, end and features.
    pairs: (T + 1, T) features of a second-order chain. It keeps the tags whose first-order marginal
        is at least `least`.
    """

    def __init__(
        self, n_tags, n_features, online, n_sequences, constraints=None, pairs=None, least=0.01
    ):
        self.pairs, self.least = pairs, least
        self.n_tags, self.online, self.n_sequences = n_tags, online, n_sequences
        self.w = np.zeros((n_tags + 3 + n_features, n_tags))
        self.total = np.zeros_like(self.w)
        self.squares = np.zeros_like(self.w)
        # Tsuruoka et al. 2009: the penalty that a weight can have had, and the one that it had.
        self.u, self.q = 0.0, np.zeros_like(self.w)
        self.steps = 0
        self.constraints = constraints

    @property
    def weights(self):
        """The weights that predict: averaged over steps if the options say so.

        With l1, averages of weights that are 0 now are 0.
        """
        if not (self.online.averaged and self.steps):
            return self.w
        mean = self.total / self.steps
        return np.where(self.w == 0, 0, mean) if self.online.l1 else mean

    def active(self, features):
        """Return the counts of bias, start, end and features of each token, (L, 3 + F)."""
        active = np.zeros((len(features), len(self.w) - self.n_tags))
        active[:, 0] = 1
        active[0, 1] = active[-1, 2] = 1
        for i, rows in enumerate(features):
            for row in rows:
                active[i, 3 + row] += 1
        return active

    def potentials(self, features, lattice):
        """Return the potentials of one sequence. lattice: bool (L, T) of allowed tags, or None."""
        unary = self.active(features) @ self.w[self.n_tags :]
        transitions = self.w[: self.n_tags].copy()
        if self.constraints:
            allowed, start, end = self.constraints
            transitions[~allowed] = -np.inf
            unary[0, ~start] = -np.inf
            unary[-1, ~end] = -np.inf
        if lattice is not None:
            unary[~lattice] = -np.inf
        return Potentials(unary, transitions, np.array([len(features)], dtype="int32"))

    def labelings(self, potentials, allowed=None):
        """Return pairs of score and tags, best first. allowed: bool (L, T), or None for all."""
        scored = []
        for tags in product(range(self.n_tags), repeat=len(potentials.unary)):
            score = potentials.unary[np.arange(len(tags)), list(tags)].sum()
            score += sum(potentials.transitions[u, v] for u, v in pairwise(tags))
            if allowed is not None and not allowed[np.arange(len(tags)), list(tags)].all():
                continue
            if score > -np.inf:
                scored.append((score, tags))
        return sorted(scored, reverse=True)

    def counts(self, tags):
        """Return the indicators (L, T) of a labeling, and the counts (T, T) of its transitions."""
        edges = np.zeros((self.n_tags, self.n_tags))
        for u, v in pairwise(tags):
            edges[u, v] += 1
        return np.eye(self.n_tags)[list(tags)], edges

    def mean_counts(self, labelings):
        """Return the mean counts under the softmax of the labelings' scores."""
        scores = np.array([score for score, _ in labelings])
        p = np.exp(scores - scores.max())
        p /= p.sum()
        unary, edges = zip(*(self.counts(tags) for _, tags in labelings), strict=True)
        return np.tensordot(p, unary, 1), np.tensordot(p, edges, 1)

    def by_weight(self, features, unary, edges):
        """Sum a gradient by token (L, T) and transition (T, T) over the features of each weight."""
        return np.concatenate([edges, self.active(features).T @ unary])

    def step(self, features, gold, lattice=None):
        """Learn one sequence. gold: (L,) tags with -1 for unknown."""
        potentials = self.potentials(features, lattice)
        gold = np.asarray(gold)
        is_wrong = (gold[:, None] != np.arange(self.n_tags)) & (gold[:, None] >= 0)
        if (gold < 0).any() and not (is_wrong & (potentials.unary > -np.inf)).any():
            return
        rate = self.online.rate / (1 + self.online.decay * self.steps / self.n_sequences)
        self.change(features, potentials, gold, rate)
        kept = 1 - rate * self.online.l2 / self.n_sequences
        self.w *= kept
        # Past penalties shrink like the weights.
        self.u = kept * self.u + rate * self.online.l1 / self.n_sequences
        self.q *= kept
        if self.online.l1:
            self.apply_penalties()
        self.total += self.w
        self.steps += 1

    def apply_penalties(self):
        """Figure 2 of Tsuruoka et al. 2009, for all weights."""
        z, root = self.w, 1.0
        if self.online.optimizer == "adagrad":
            root = np.sqrt(1 + self.squares)
        lower = np.maximum(0, z - (self.u + self.q) / root)
        upper = np.minimum(0, z + (self.u - self.q) / root)
        self.w = np.where(z > 0, lower, np.where(z < 0, upper, z))
        self.q = self.q + (self.w - z) * root

    def change(self, features, potentials, gold, rate):
        """Change the weights, and the squared gradients of AdaGrad, by one sequence."""
        if self.online.objective == "mira":
            self.w += self.mira(features, potentials, gold, rate)
            return
        triples = np.zeros_like(self.w)
        if self.pairs is None or len(gold) == 1:
            unary, edges = self.gradient(potentials, gold)
        else:
            unary, edges, triples = self.second_order_gradient(potentials, gold)
        if self.online.optimizer == "sgd":
            self.w -= rate * (self.by_weight(features, unary, edges) + triples)
            return
        # AdaGrad makes a step for each token, in order, and then one for the transitions.
        for active, gradient in zip(self.active(features), unary, strict=True):
            for row in np.repeat(np.arange(len(active)), active.astype(int)):
                self.adapt(self.n_tags + row, gradient, rate)
        for row, gradient in enumerate(edges):
            self.adapt(row, gradient, rate)
        for row in np.flatnonzero(triples.any(axis=1)):
            self.adapt(row, triples[row], rate)

    def triples(self, tags):
        """Return the counts of the weights of three neighbouring tags, in the shape of w."""
        counts = np.zeros_like(self.w)
        for i in range(1, len(tags)):
            pair = self.pairs[tags[i - 2] if i > 1 else self.n_tags, tags[i - 1]]
            counts[self.n_tags + 3 + pair, tags[i]] += 1
        return counts

    def second_order(self, potentials, allowed):
        """Return pairs of score and tags, as `labelings` does, with the weights of three tags."""
        found = self.labelings(potentials, allowed)
        return [(score + (self.w * self.triples(tags)).sum(), tags) for score, tags in found]

    def kept(self, labelings):
        """Return the tags, bool (L, T), that are likely, or on the best labeling."""
        best = self.counts(labelings[0][1])[0]
        return (self.mean_counts(labelings)[0] >= self.least) | (best == 1)

    def second_order_gradient(self, potentials, gold):
        """Return the gradient of a second-order CRF by token, transition and triple of tags."""
        allowed = (gold[:, None] == np.arange(self.n_tags)) | (gold[:, None] < 0)
        keep = self.mean_counts(self.labelings(potentials))[0] >= self.least
        keep |= self.kept(self.labelings(potentials, allowed))
        gradients = []
        for kept in keep, keep & allowed:
            labelings = self.second_order(potentials, kept)
            scores = np.array([score for score, _ in labelings])
            p = np.exp(scores - scores.max())
            p /= p.sum()
            triples = sum(w * self.triples(tags) for w, (_, tags) in zip(p, labelings, strict=True))
            gradients.append((*self.mean_counts(labelings), triples))
        return [free - target for free, target in zip(*gradients, strict=True)]

    def adapt(self, row, gradient, rate):
        self.squares[row] += gradient**2
        self.w[row] -= rate * gradient / np.sqrt(1 + self.squares[row])

    def gradient(self, potentials, gold):
        """Return the gradient of the loss of one sequence by token (L, T) and transition (T, T)."""
        objective, n_iter = self.online.objective, self.online.n_iter
        allowed = (gold[:, None] == np.arange(self.n_tags)) | (gold[:, None] < 0)
        if objective == "mean_field":
            arrays = potentials.unary, potentials.transitions, potentials.lengths
            result = mean_field_loss(np, *arrays, gold, n_iter)
            return result.unary, result.edges
        if objective == "bcrf":
            masked = np.where(allowed, potentials.unary, -np.inf)
            (p, p_edges), (q, q_edges) = (
                self.project(potentials.with_scores(unary, potentials.transitions))
                for unary in (potentials.unary, masked)
            )
            return p - q, p_edges - q_edges
        free = self.labelings(potentials)
        if objective == "crf":
            q, q_edges = self.mean_counts(self.labelings(potentials, allowed))
        else:
            q, q_edges = self.counts(self.labelings(potentials, allowed)[0][1])
            free = free[: 1 if objective == "perceptron" else self.online.n]
        p, p_edges = self.mean_counts(free)
        return p - q, p_edges - q_edges

    def project(self, potentials):
        """Return the tag marginals (L, T) and the summed edge marginals of the Bregman CRF."""
        arrays = potentials.unary, potentials.transitions, potentials.lengths
        result = bregman(np, *arrays, BregmanOptions(self.online.n_iter, 1.25, None), "sum")
        return result.unary, result.edges

    def mira(self, features, potentials, gold, rate):
        """The update of MIRA with n = 1, which has a closed form."""
        allowed = (gold[:, None] == np.arange(self.n_tags)) | (gold[:, None] < 0)
        target_score, target_tags = self.labelings(potentials, allowed)[0]
        top, tags = self.labelings(potentials)[0]
        difference = self.by_weight(features, *self.counts(target_tags))
        difference -= self.by_weight(features, *self.counts(tags))
        norm = (difference**2).sum()
        if not norm:
            return np.zeros_like(self.w)
        wrong = sum(a != b for a, b in zip(tags, target_tags, strict=True))
        return min(rate, max(0, wrong + top - target_score) / norm) * difference
