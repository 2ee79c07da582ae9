"""Features with real values, and their learning in small batches."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, MIRA, Constraints, Perceptron

from .corpus_loss import CorpusLoss
from .crfsuite_attributes import Batch
from .learner import DivergedError, OnlineSettings

BATCH = 8
"""Number of sequences of a step."""


def learn_values(
    settings: OnlineSettings,
    sizes: tuple[int, int],
    constraints: Constraints | None,
    batch: Batch,
    gold: NDArray,
    passes: int,
    report: Callable[[int, float, NDArray], None],
) -> NDArray[np.float32]:
    """Return the weights (T + 3 + A, stride), learned by AdaGrad steps on small batches.

    sizes: T and A. gold: int32 (N,), -1 for unknown. report: called after each pass with its
    number, its loss and the weights. Raises DivergedError if the weights are no longer finite.
    """
    n_tags, n = sizes[0], len(batch.lengths)
    objectives: dict[str, Any] = {"crf": CRF(), "perceptron": Perceptron(), "mira": MIRA()}
    objective = objectives[settings.objective]
    weights = np.zeros((n_tags + 3 + sizes[1], -(-n_tags // 8) * 8), "float32")
    squares = np.zeros_like(weights)
    random = np.random.default_rng(settings.seed)
    for k in range(1, passes + 1):
        total = 0.0
        for some in np.array_split(random.permutation(n), math.ceil(n / BATCH)):
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
