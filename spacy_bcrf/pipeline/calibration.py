"""Whether a component is as often right as it is sure, and the temperature that makes it so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.training import Example
from spacy.util import minibatch
from tqdm import tqdm

from spacy_bcrf.chain import Potentials

from .queries import BATCH_SIZE
from .sequence_labeler import SequenceLabeler

# Confidence is never taken for certainty: one wrong prediction would cost infinitely much.
_CERTAIN = 1e-6


class Reliability(NamedTuple):
    """Predictions in K bins of confidence of the same width, from 0 to 1; each (K,).

    confidence, accuracy: the means of a bin, 0 where it is empty. counts: of predictions.
    """

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error (Naeini et al. 2015): the mean over predictions of how far
        the confidence of their bin is from its accuracy."""
        gaps = self.counts * np.abs(self.confidence - self.accuracy)
        return float(gaps.sum() / max(1, self.counts.sum()))


def measure_reliability(
    confidence: NDArray[np.floating], correct: NDArray[np.bool_], n_bins: int = 10
) -> Reliability:
    """confidence, correct: (M,) of M predictions."""
    bins = (confidence * n_bins).astype("int64").clip(0, n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    sums = (np.bincount(bins, weights=x, minlength=n_bins) for x in (confidence, correct))
    means = [total / np.maximum(counts, 1) for total in sums]
    return Reliability(means[0], means[1], counts)


class Calibration:
    """A component's predictions on annotated examples, and its confidence in them at any
    temperature. What comes before the component must have annotated the predicted documents.

    ignore_annotation: see `PosteriorQueries`.
    """

    def __init__(
        self,
        pipe: SequenceLabeler,
        examples: Sequence[Example],
        *,
        ignore_annotation: bool = True,
    ) -> None:
        self._pipe = pipe
        self._batches: list[tuple[Potentials, Any]] = []
        correct = []
        progress = tqdm(total=len(examples), unit="docs", desc="predicting", delay=1, disable=None)
        with progress:
            for batch in minibatch(examples, BATCH_SIZE):
                potentials, predictions, is_correct = pipe.compare_with_gold(
                    batch, ignore_annotation=ignore_annotation
                )
                self._batches.append((potentials, predictions))
                correct.append(is_correct)
                progress.update(len(batch))
        self.correct = np.concatenate([np.zeros(0, dtype=bool), *correct])
        """bool (M,) whether each of M predictions is that of the annotation; those that it says
        nothing about are left out."""

    def confidence(self, temperature: float) -> NDArray[np.float64]:
        """(M,) probabilities of the predictions."""
        found = [
            self._pipe.confidences(potentials.scale(1 / temperature), predictions)
            for potentials, predictions in self._batches
        ]
        return np.concatenate([np.zeros(0), *found]).astype("float64")

    def loss(self, temperature: float) -> float:
        """Mean over the predictions of -log of the probability of being as right as they are."""
        confidence = self.confidence(temperature).clip(_CERTAIN, 1 - _CERTAIN)
        return float(-np.log(np.where(self.correct, confidence, 1 - confidence)).mean())

    def fit(self) -> float:
        """The temperature of smallest loss between 1/1000 and 1000: scores learned without
        probabilities, as by a perceptron, can be of any size. ValueError without predictions."""
        if not len(self.correct):
            raise ValueError(f"{self._pipe.name} predicts nothing there that is annotated")
        return math.exp(_minimize(lambda x: self.loss(math.exp(x)), -math.log(1e3), math.log(1e3)))


def _minimize(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one minimum between low and high is smallest, by golden sections."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    while high - low > 0.01:
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return (low + high) / 2
