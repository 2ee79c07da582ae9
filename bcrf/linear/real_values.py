"""Features with real values, and their learning in small batches."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, MIRA, Constraints, Perceptron, Potentials

from .crfsuite_attributes import Batch, find_starts
from .learner import DivergedError, OnlineSettings
from .rows import Rows

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
    weights = np.zeros((n_tags + 3 + sizes[1], -(-n_tags // 8) * 8), "float32")
    squares = np.zeros_like(weights[:, :n_tags])
    random = np.random.default_rng(settings.seed)
    for k in range(1, passes + 1):
        total = 0.0
        for some in np.array_split(random.permutation(n), math.ceil(n / BATCH)):
            part, tokens = batch.take(np.sort(some))
            features, values = all_features(part, n_tags)
            potentials = sum_features(weights, features, values, part.lengths, n_tags)
            potentials = potentials.constrain(constraints)
            loss, gradient = objectives[settings.objective].loss(potentials, gold[tokens])
            total += float(loss.sum())
            slopes = np.repeat(gradient.unary, np.diff(features.starts), axis=0)
            slopes *= values[:, None]
            order = features.rows.argsort(kind="stable")
            used, first = np.unique(features.rows[order], return_index=True)
            # A batch without tokens has no features.
            sums = np.add.reduceat(slopes[order], first) if len(used) else slopes
            used = np.concatenate([np.arange(n_tags), used])
            sums = np.concatenate([gradient.transitions, sums])
            squares[used] += sums**2
            weights[used, :n_tags] -= settings.rate * sums / np.sqrt(1 + squares[used])
        if not np.isfinite(weights).all():
            raise DivergedError("the weights are not finite: scale the values of features")
        report(k, total, weights)
    return weights


def all_features(batch: Batch, n_tags: int) -> tuple[Rows, NDArray]:
    """Return the rows of weights and their values, with the bias, the start and the end."""
    n, lengths = len(batch.starts) - 1, batch.lengths[batch.lengths > 0]
    values = np.ones(len(batch.rows)) if batch.values is None else batch.values
    last = lengths.cumsum() - 1
    tokens = np.repeat(np.arange(n), np.diff(batch.starts))
    tokens = np.concatenate([tokens, np.arange(n), last - lengths + 1, last])
    general = np.repeat(n_tags + np.arange(3), [n, len(last), len(last)])
    rows = np.concatenate([batch.rows + n_tags + 3, general.astype("int32")])
    values = np.concatenate([values, np.ones(len(rows) - len(values))]).astype("float32")
    order = tokens.argsort(kind="stable")
    return Rows(rows[order], find_starts(np.bincount(tokens, minlength=n))), values[order]


def sum_features(
    weights: NDArray, features: Rows, values: NDArray, lengths: NDArray[np.int32], n_tags: int
) -> Potentials:
    """Return the potentials of tokens with the features and values of `all_features`."""
    unary = np.zeros((len(features.starts) - 1, n_tags), weights.dtype)
    if len(unary):
        scores = values[:, None] * weights[features.rows, :n_tags]
        unary = np.add.reduceat(scores, features.starts[:-1])
    return Potentials(unary, weights[:n_tags, :n_tags], lengths)
