"""Online learning of the chain of `bcrf.sklearn`. Real values are learned in small batches."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, MIRA, Constraints, Perceptron

from .corpus_loss import CorpusLoss
from .crfsuite_attributes import Batch
from .learner import DivergedError, OnlineLearner, OnlineSettings
from .rows import Rows

BATCH = 8
"""Number of sequences of a step."""


def learn_online(
    settings: OnlineSettings,
    weights: NDArray[np.float32],
    sizes: tuple[int, int],
    constraints: Constraints | None,
    batch: Batch,
    gold: NDArray,
    passes: int,
    report: Callable[[int, float, NDArray], None],
) -> NDArray[np.float32]:
    """Return the weights (T + 3 + A, stride) after steps from given ones on.

    sizes: T and A. gold: int32 (N,), -1 for unknown. report: called after each pass with its
    number, its loss and the weights. Raises ValueError for settings that steps on real values lack,
    and DivergedError if the weights are no longer finite.
    """
    if batch.values is not None:
        return _learn_values(settings, weights, sizes, constraints, batch, gold, passes, report)
    learner = OnlineLearner(*sizes, settings, len(batch.lengths))
    learner.weights = weights
    learner.constrain(constraints)
    rows = Rows(batch.rows, batch.starts)
    learner.fit(rows, batch.lengths, gold, passes, lambda n, loss: report(n, loss, learner.weights))
    return learner.weights


def _learn_values(
    settings: OnlineSettings,
    weights: NDArray[np.float32],
    sizes: tuple[int, int],
    constraints: Constraints | None,
    batch: Batch,
    gold: NDArray,
    passes: int,
    report: Callable[[int, float, NDArray], None],
) -> NDArray[np.float32]:
    """Learn by AdaGrad steps on small batches."""
    n_tags, n = sizes[0], len(batch.lengths)
    objectives: dict[str, Any] = {"crf": CRF(), "perceptron": Perceptron(), "mira": MIRA()}
    if settings.objective not in objectives or settings.l1 or settings.l2 or settings.decay:
        raise ValueError(
            "features with values other than 1 need the objective crf, perceptron or mira, and no "
            "l1, l2 or decay"
        )
    objective = objectives[settings.objective]
    weights = weights.copy()
    squares = np.zeros_like(weights)
    random = np.random.default_rng(settings.seed)
    for k in range(1, passes + 1):
        total = 0.0
        for some in np.array_split(random.permutation(n), math.ceil(n / BATCH) or 1):
            part, tokens = batch.take(np.sort(some))
            used, rows = np.unique(part.rows, return_inverse=True)
            part = part._replace(rows=rows.astype("int32"))
            loss = CorpusLoss(part, gold[tokens], (n_tags, len(used)), constraints, None, objective)
            at = np.concatenate([np.arange(n_tags + 3), n_tags + 3 + used])
            value, slopes = loss(weights[at])
            total += value
            squares[at] += slopes**2
            weights[at] -= settings.rate * slopes / np.sqrt(1 + squares[at])
        if not np.isfinite(weights).all():
            raise DivergedError("the weights are not finite: scale the values of features")
        report(k, total, weights)
    return weights
