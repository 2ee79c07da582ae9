"""Measure how close SAPO's update is to the gradient: the convergence theorem of the SAPO paper.

    python -m experiments.sapo.convergence chunking --corpora DIR --output convergence.csv

The theorem compares SAPO's update s(w) with the gradient of the CRF's objective f. Let w* be the
optimum and (grad f(w) - s(w))' (w - w*) <= tau. Training with a small constant rate then ends at an
error proportional to tau.

For each n, the table has the gap |grad f - s| / |grad f| and tau, at weights from the training of
the CRF. It also has the distance from w* at which training with this n ends.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from experiments.report import write_csv
from experiments.sapo.dataset import Dataset
from experiments.sapo.tasks import TASKS
from spacy_bcrf.chain import CRF
from spacy_bcrf.sparse.features import Rows
from spacy_bcrf.sparse.learner import OnlineLearner, OnlineSettings
from spacy_bcrf.sparse.template_sets import get_templates

SIZES = (1, 2, 5, 10, 20, 50, 100)
COLUMNS = ("n", "after passes", "gap", "tau", "distance at the end", "objective above the optimum")


class Problem:
    """The objective of a CRF over a few sentences: sum of the losses + l2 / 2 |w|^2."""

    def __init__(self, data: Dataset, l2: float) -> None:
        self.data, self.l2 = data, l2
        self.n_tags, self.n = len(data.tags), len(data.lengths)

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
        offsets = np.concatenate([[0], self.data.lengths.cumsum()])
        for k, length in enumerate(self.data.lengths):
            a, b = offsets[k], offsets[k + 1]
            first, last = rows.starts[a], rows.starts[b]
            one = Rows(rows.rows[first:last], rows.starts[a : b + 1] - first)
            learner.weights = start
            learner.step(one, np.array([length], "int32"), self.data.gold[a:b])
            total += start - learner.weights
        return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--passes", type=int, default=100)
    args = parser.parse_args()
    task = TASKS[args.task]
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
        rows = []
        for n in SIZES:
            bar.set_description(f"n = {n}")
            sapo = replace(small, objective="sapo", n=n)
            end = problem.train(sapo, args.passes)
            bar.update()
            for p, weights in by_passes.items():
                difference = exact[p] - problem.update(weights, sapo)
                values = (
                    n,
                    p,
                    np.linalg.norm(difference) / np.linalg.norm(exact[p]),
                    (difference * (weights - best)).sum() / problem.n,
                    np.linalg.norm(end - best) / np.linalg.norm(best),
                    (problem.value(end) - lowest) / problem.n,
                )
                rows.append(values)
                bar.update()
    write_csv(args.output, [COLUMNS, *rows])


if __name__ == "__main__":
    main()
