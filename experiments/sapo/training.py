"""Training of a linear chain, pass by pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bcrf.chain import viterbi
from bcrf.linear.learner import OnlineLearner, OnlineSettings
from experiments.sapo.tasks import Task
from lab.dataset import Dataset


class Pass(NamedTuple):
    """Measurements after one pass.

    score: test score in percent. complexity: mean absolute weight. nonzero: share of the weights
    that are not 0, in percent. seconds: processor time of the pass.
    """

    score: float
    complexity: float
    nonzero: float
    seconds: float


def learn(
    settings: OnlineSettings, task: Task, data: Dataset, test: list, n_passes: int
) -> Iterator[Pass]:
    """Train on `data`, and yield the measurements of each pass. test: the scored sentences."""
    rows, lengths = data.read(test)
    gold = [task.labels(sentence) for sentence in test]
    model = OnlineLearner(len(data.tags), len(data.dictionary), settings, len(data.lengths))
    for _ in range(n_passes):
        start = time.process_time()
        model.fit(data.rows, data.lengths, data.gold, 1)
        seconds = time.process_time() - start
        found, _ = viterbi(model.potentials(rows, lengths))
        nonzero = 100 * np.count_nonzero(model.weights) / (len(model.weights) * model.n_tags)
        score = task.score(gold, data.split(found, lengths))
        complexity = float(np.abs(model.weights[:, : model.n_tags]).mean())
        yield Pass(score, complexity, nonzero, seconds)
