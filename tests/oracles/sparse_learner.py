"""Online learning in plain NumPy: dense weights, eager L2 and averages, enumerated labelings."""

from itertools import pairwise, product

import numpy as np

from spacy_bcrf.chain import CRF, Potentials


class Reference:
    """The same steps as `OnlineLearner`, one by one; weights (T + 3 + F, T)."""

    def __init__(self, n_tags, n_features, online, n_sequences, constraints=None):
        self.n_tags, self.online, self.n_sequences = n_tags, online, n_sequences
        self.w = np.zeros((n_tags + 3 + n_features, n_tags))
        self.total = np.zeros_like(self.w)
        self.steps = 0
        self.constraints = constraints

    @property
    def weights(self):
        return self.total / self.steps if self.online.averaged and self.steps else self.w

    def active(self, features):
        """(n, F + 3) which of bias, start, end and features each token has."""
        active = np.zeros((len(features), len(self.w) - self.n_tags))
        active[:, 0] = 1
        active[0, 1] = active[-1, 2] = 1
        for i, rows in enumerate(features):
            for row in rows:
                active[i, 3 + row] += 1
        return active

    def potentials(self, features, lattice):
        unary = self.active(features) @ self.w[self.n_tags :]
        transitions = self.w[: self.n_tags].copy()
        if self.constraints:
            allowed, start, end = self.constraints
            transitions[~allowed] = -np.inf
            unary[0, ~start] = -np.inf
            unary[-1, ~end] = -np.inf
        if lattice is not None:
            unary[~lattice] = -np.inf
        return Potentials(unary, transitions, np.array([len(features)]))

    def labelings(self, potentials, allowed=None):
        """Scores and labelings, best first."""
        scored = []
        for tags in product(range(self.n_tags), repeat=len(potentials.unary)):
            score = potentials.unary[np.arange(len(tags)), list(tags)].sum()
            score += sum(potentials.transitions[u, v] for u, v in pairwise(tags))
            if allowed is not None and not allowed[np.arange(len(tags)), list(tags)].all():
                continue
            if score > -np.inf:
                scored.append((score, tags))
        return sorted(scored, reverse=True)

    def counts(self, features, tags):
        """F(x, y): how often each weight counts."""
        onehot = np.eye(self.n_tags)[list(tags)]
        edges = np.zeros((self.n_tags, self.n_tags))
        for u, v in pairwise(tags):
            edges[u, v] += 1
        return np.concatenate([edges, self.active(features).T @ onehot])

    def step(self, features, gold, lattice=None):
        potentials = self.potentials(features, lattice)
        rate = self.online.rate / (1 + self.online.decay * self.steps / self.n_sequences)
        change = self.change(features, potentials, np.asarray(gold), rate)
        self.w *= 1 - rate * self.online.l2 / self.n_sequences
        self.w += change
        self.total += self.w
        self.steps += 1

    def change(self, features, potentials, gold, rate):
        objective = self.online.objective
        if objective == "crf":
            _, gradient = CRF().loss(potentials, gold)
            node = self.active(features).T @ gradient.unary
            return -rate * np.concatenate([gradient.transitions, node])
        if (gold < 0).any():
            allowed = (gold[:, None] == np.arange(self.n_tags)) | (gold[:, None] < 0)
            gold = self.labelings(potentials, allowed)[0][1]
        target = self.counts(features, gold)
        if objective == "perceptron":
            return rate * (target - self.counts(features, self.labelings(potentials)[0][1]))
        best = self.labelings(potentials)[: self.online.n]
        if objective == "sapo":
            p = np.exp([score - best[0][0] for score, _ in best])
            p /= p.sum()
            mean = sum(p * self.counts(features, y) for p, (_, y) in zip(p, best, strict=True))
            return rate * (target - mean)
        score = {y: s for s, y in self.labelings(potentials)}[tuple(gold)]
        change = np.zeros_like(self.w)
        ((top, tags),) = best  # only n = 1 has a closed form
        difference = target - self.counts(features, tags)
        norm = (difference**2).sum()
        if norm:
            wrong = sum(a != b for a, b in zip(tags, gold, strict=True))
            change = min(rate, max(0, wrong + top - score) / norm) * difference
        return change
