"""Measure how close SAPO's update is to the gradient: the convergence theorem of the SAPO paper.

    python -m experiments.sapo.convergence chunking --corpora DIR --output convergence.csv

The theorem compares SAPO's update s(w) with the gradient of the CRF's objective f, the mean over
the sentences. Let w* be the optimum, w0 the start, and

- c > 0 the modulus of strong convexity: f(v) >= f(w) + (v - w)' grad f(w) + c / 2 |v - w|^2,
- q the Lipschitz constant of the gradient: |grad f(v) - grad f(w)| <= q |v - w|,
- kappa a bound of the update of one sentence: |s_k(w)| <= kappa,
- tau a bound of the error of the update: (grad f(w) - s(w))' (w - w*) <= tau <= c eps / 2q.

With the fixed rate (c eps - 2 tau q) / (q kappa^2), f(w) - f(w*) <= eps in expectation after
q kappa^2 log(q |w0 - w*|^2 / eps) / (c (c eps - 2 tau q)) updates. So eps must be above
2 q tau / c, the least eps.

For each n, the table has the gap |grad f - s| / |grad f| and tau, at weights from the training of
the CRF. It also has the distance |w - w*| / |w*| and f(w) - f(w*) at which training with this n and
a small fixed rate ends. Beside these measurements are the theorem's bounds for twice the least eps:
the number of updates, and the distance, since c / 2 |w - w*|^2 <= f(w) - f(w*). The last column is
the number of updates for the measured f(w) - f(w*) if tau were 0. The constants hold for all w, so
the bounds are far from the measurements.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bcrf.chain import CRF
from bcrf.linear.learner import OnlineLearner, OnlineSettings
from bcrf.linear.rows import Rows
from experiments.sapo.tasks import TASKS
from lab.dataset import Dataset
from lab.tables import markdown_table, write_csv
from spacy_bcrf.sparse.template_sets import get_templates

SIZES = (1, 2, 5, 10, 20, 50, 100)
COLUMNS = (
    *("n", "after passes", "gap", "tau", "distance at the end", "objective above the optimum"),
    *("largest tau", "least eps", "bound of the updates", "bound of the distance"),
    "bound of the updates at tau = 0",
)


@dataclass(frozen=True)
class Theorem:
    """The constants of the theorem, see the module."""

    c: float
    q: float
    kappa: float

    def least_eps(self, tau: float) -> float:
        """Return the infimum of the eps that the theorem allows."""
        return 2 * self.q * tau / self.c

    def rate(self, tau: float, eps: float) -> float:
        """Return the fixed rate for an eps above the least one."""
        return (self.c * eps - 2 * tau * self.q) / (self.q * self.kappa**2)

    def steps(self, tau: float, eps: float, start: float) -> float:
        """Return the number of updates after which f(w) - f(w*) <= eps; NaN for too small an eps.

        start: |w0 - w*|^2.
        """
        if not self.rate(tau, eps) > 0:
            return math.nan
        return max(math.log(self.q * start / eps), 0) / (self.c * self.rate(tau, eps))

    def distance(self, eps: float) -> float:
        """Return the bound of |w - w*| if f(w) - f(w*) <= eps."""
        return math.sqrt(2 * eps / self.c)


class Problem:
    """The objective of a CRF over a few sentences: sum of the losses + l2 / 2 |w|^2."""

    def __init__(self, data: Dataset, l2: float) -> None:
        self.data, self.l2 = data, l2
        self.n_tags, self.n = len(data.tags), len(data.lengths)

    def theorem(self, radius: float) -> Theorem:
        """Return the constants of the theorem for weights of norm up to `radius`.

        The Hessian of a sentence's loss is the covariance of its features F(x, y). It is at most
        D^2 / 4, where D is the largest distance of two labelings' features. The gradient is a
        difference of means of features, so it is at most D.
        """
        diameters = feature_diameters(self.data.rows, self.data.lengths)
        c = self.l2 / self.n
        return Theorem(c, c + (diameters**2).mean() / 4, diameters.max() + c * radius)

    def make_learner(self, settings: OnlineSettings) -> OnlineLearner:
        """Make a learner with weights of 0."""
        return OnlineLearner(self.n_tags, len(self.data.dictionary), settings, self.n)

    def train(self, settings: OnlineSettings, passes: int) -> NDArray[np.float64]:
        """Learn from all sentences, and return the weights."""
        learner = self.make_learner(settings)
        learner.fit(self.data.rows, self.data.lengths, self.data.gold, passes)
        return learner.weights.astype("float64")

    def value(self, weights: NDArray[np.float64]) -> float:
        """Compute the objective."""
        learner = self.make_learner(OnlineSettings("crf"))
        learner.weights = weights.astype("float32")
        potentials = learner.potentials(self.data.rows, self.data.lengths)
        losses, _ = CRF().loss(potentials, self.data.gold)
        return float(losses.sum(dtype="float64") + self.l2 / 2 * (weights**2).sum())

    def update(self, weights: NDArray[np.float64], settings: OnlineSettings) -> NDArray[np.float64]:
        """Sum the negative steps of all sentences, each from these weights.

        For a CRF, the sum is the gradient without the regularizer.
        """
        learner = self.make_learner(replace(settings, rate=1, decay=0, l2=0, averaged=False))
        start, rows = weights.astype("float32"), self.data.rows
        total = np.zeros(weights.shape)
        stops = self.data.lengths.cumsum()
        for one, stop, length in zip(
            split_rows(rows, self.data.lengths), stops, self.data.lengths, strict=True
        ):
            learner.weights = start
            gold = self.data.gold[stop - length : stop]
            learner.step(one, np.array([length], "int32"), gold)
            total += start - learner.weights
        return total


def split_rows(rows: Rows, lengths: NDArray[np.int32]) -> Iterator[Rows]:
    """Yield the feature rows of each sentence."""
    offsets = np.concatenate([[0], lengths.cumsum()])
    for a, b in pairwise(offsets.tolist()):
        first, last = rows.starts[a], rows.starts[b]
        yield Rows(rows.rows[first:last], rows.starts[a : b + 1] - first)


def feature_diameters(rows: Rows, lengths: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the largest |F(x, y) - F(x, y')| of each sentence x over its labelings y, (B,).

    The labelings of two constant tags are the furthest apart: each of their counts differs.
    """
    squares = []
    for one, length in zip(split_rows(rows, lengths), lengths.tolist(), strict=True):
        counts = np.unique(one.rows, return_counts=True)[1].astype("float64")
        # The bias occurs at each token, the start and the end once.
        squares.append((counts**2).sum() + length**2 + 2 + (length - 1) ** 2)
    return np.sqrt(2 * np.array(squares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--l2", type=float, help="lambda; default: see `Task`")
    args = parser.parse_args()
    task = TASKS[args.task]
    if args.l2 is not None:
        task = replace(task, l2=args.l2)
    train, _ = task.load(args.corpora)
    # lambda is for all sentences together, so a part of the sentences gets its share of it.
    part = train[: args.sentences]
    l2 = task.l2 * len(part) / len(train)
    problem = Problem(Dataset(part, get_templates(task.templates), task.labels), l2)
    small = OnlineSettings("crf", averaged=False, rate=0.02, l2=problem.l2)
    with tqdm(total=3 + len(SIZES) * 4, desc="optimum", unit="step") as bar:
        # Only a falling rate reaches the optimum.
        best = problem.train(replace(small, rate=0.1, decay=0.2), 10 * args.passes)
        lowest = problem.value(best)
        by_passes = {p: problem.train(small, p) for p in (1, 10, args.passes)}
        exact = {p: problem.update(weights, small) for p, weights in by_passes.items()}
        bar.update(3)
        size = float(np.linalg.norm(best))
        norms = [float(np.linalg.norm(weights)) for weights in by_passes.values()]
        theorem = problem.theorem(max(size, *norms))
        rows: list[tuple[float, ...]] = []
        for n in SIZES:
            bar.set_description(f"n = {n}")
            sapo = replace(small, objective="sapo", n=n)
            end = problem.train(sapo, args.passes)
            bar.update()
            gaps, taus = list[float](), list[float]()
            for p, weights in by_passes.items():
                difference = exact[p] - problem.update(weights, sapo)
                gaps.append(float(np.linalg.norm(difference) / np.linalg.norm(exact[p])))
                taus.append(float((difference * (weights - best)).sum()) / problem.n)
                bar.update()
            above = (problem.value(end) - lowest) / problem.n
            # An error towards w* does no harm.
            tau = max(0.0, *taus)
            least = theorem.least_eps(tau)
            last = (
                float(np.linalg.norm(end - best)) / size,
                above,
                tau,
                least,
                theorem.steps(tau, 2 * least, size**2),
                theorem.distance(2 * least) / size,
                theorem.steps(0, above, size**2),
            )
            rows += [(n, *own, *last) for own in zip(by_passes, gaps, taus, strict=True)]
    write_csv(args.output, [COLUMNS, *rows])
    print(
        f"{problem.n} sentences, {args.passes} passes, {args.passes * problem.n} updates, "
        f"rate {small.rate}: c = {theorem.c:.3g}, q = {theorem.q:.3g}, "
        f"kappa = {theorem.kappa:.3g}, |w*| = {size:.3g}\n"
    )
    print(markdown_table([COLUMNS, *([f"{x:.3g}" for x in row] for row in rows)]))


if __name__ == "__main__":
    main()
