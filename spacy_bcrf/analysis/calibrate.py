"""Calibration of confidences: reliability, and the temperature that minimizes the loss."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from tqdm import tqdm

from bcrf.chain import Potentials
from spacy_bcrf.pipeline.confidence import find_keys
from spacy_bcrf.pipeline.platt_scaling import GROUPINGS, PlattScaling
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.settings import check_grouping

from .loading import check_common, find_labeler, hash_texts, make_examples
from .result import Result, as_json, make_axes, plot_reliability

# Clip p at 1 - eps so that one wrong prediction has a finite loss.
_EPS = 1e-6


class Reliability(NamedTuple):
    """Means (K,) of confidence and accuracy, and counts, in K bins of equal width from 0 to 1."""

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error (Naeini et al. 2015): the mean over predictions of
        |confidence - accuracy| of their bin."""
        gaps = self.counts * np.abs(self.confidence - self.accuracy)
        return float(gaps.sum() / max(1, self.counts.sum()))


def measure_reliability(
    confidence: NDArray[np.floating], correct: NDArray[np.bool_], n_bins: int = 10
) -> Reliability:
    """Return the reliability of M predictions. confidence, correct: (M,)."""
    bins = (confidence * n_bins).astype("int64").clip(0, n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    sums = (np.bincount(bins, weights=x, minlength=n_bins) for x in (confidence, correct))
    means = [total / np.maximum(counts, 1) for total in sums]
    return Reliability(means[0], means[1], counts)


def expected_error(confidence: NDArray[np.floating], n_bins: int = 10, n: int = 200) -> float:
    """Return the mean error, above 0, that perfectly calibrated predictions have, by n draws."""
    rng = np.random.default_rng(0)
    draws = (rng.random(len(confidence)) < confidence for _ in range(n))
    return float(np.mean([measure_reliability(confidence, x, n_bins).error for x in draws]))


class Calibration:
    """A component's predictions on gold examples, and their confidence at any temperature.

    The components before it have annotated the predicted documents. ignore_annotation: see
    `PosteriorQueries`. ValueError if it knows none of the gold labels.
    """

    def __init__(
        self, pipe: SequenceLabeler, examples: Sequence[Example], *, ignore_annotation: bool = True
    ) -> None:
        self.labels = check_common(pipe, examples)
        """Of the gold documents."""
        self._pipe = pipe
        self._n_docs = len(examples)
        self._keys: dict[str, list[str]] = {by: [] for by in GROUPINGS}
        self._batches: list[tuple[Potentials, Any]] = []
        self.n_left_out = 0
        """The number of predictions that gold cannot judge."""
        correct = []
        shown = tqdm(examples, "predicting", unit="docs", delay=1, disable=None)
        for batch in minibatch(shown, BATCH_SIZE):
            potentials, predictions, is_correct, n_left_out = pipe.compare_with_gold(
                batch, ignore_annotation=ignore_annotation
            )
            self.n_left_out += n_left_out
            self._batches.append((potentials, predictions))
            for by in pipe.codec.groupings:
                self._keys[by] += find_keys(pipe.codec, by, predictions)
            correct.append(is_correct)
        self.correct = np.concatenate([np.zeros(0, dtype=bool), *correct])
        """Whether each of M predictions that gold can judge is correct, bool (M,)."""

    def extend(self, other: "Calibration") -> None:
        """Add the predictions of a component with the same labels and inference (cross-fitting)."""
        self.labels = self.labels | other.labels
        self.correct = np.concatenate([self.correct, other.correct])
        self._n_docs += other._n_docs
        self._batches += other._batches
        for by, keys in other._keys.items():
            self._keys[by] += keys

    def confidence(
        self, temperature: float, scaling: PlattScaling | None = None
    ) -> NDArray[np.float64]:
        """Return the probabilities (M,) of the predictions, mapped by `scaling`."""
        found = [
            self._pipe.confidences(self._pipe.posterior(potentials, temperature), predictions)
            for potentials, predictions in self._batches
        ]
        p = np.concatenate([np.zeros(0), *found]).astype("float64")
        return p if scaling is None else scaling.apply(p, self._keys[scaling.by])

    def fit_scaling(self, temperature: float, by: str) -> PlattScaling:
        """Fit maps of confidences by label or length. ValueError if predictions have no length."""
        check_grouping(self._pipe.name, self._pipe.codec, by)
        return PlattScaling.fit(by, self.confidence(temperature), self.correct, self._keys[by])

    def loss(self, temperature: float) -> float:
        """Return the mean binary negative log-likelihood of correctness."""
        confidence = self.confidence(temperature).clip(_EPS, 1 - _EPS)
        return float(-np.log(np.where(self.correct, confidence, 1 - confidence)).mean())

    def fit(self) -> float:
        """Return the temperature between 1/1000 and 1000 with the smallest loss.

        The range is wide because a perceptron learns scores of any size. ValueError unless some
        predictions are correct and some are wrong, and if the loss is smallest at a bound.
        """
        name, n = self._pipe.name, len(self.correct)
        if not n:
            raise ValueError(
                f"[{name}] no prediction has gold annotation to compare with in "
                f"{self._n_docs:,} documents"
            )
        n_correct = int(self.correct.sum())
        if not n_correct:
            raise ValueError(
                f"[{name}] none of its {n:,} predictions is correct: check that the gold documents "
                "have the annotation that the component predicts"
            )
        if n_correct == n:
            raise ValueError(
                f"[{name}] all of its {n:,} predictions are correct: use more gold documents, "
                "outside of the training data"
            )
        bound = math.log(1e3)
        fitted = golden_section(lambda x: self.loss(math.exp(x)), -bound, bound)
        if bound - abs(fitted) < 0.02:
            raise ValueError(
                f"[{name}] no temperature fits: the loss is smallest at the bound "
                f"{math.exp(math.copysign(bound, fitted)):g}. {n_correct:,} of {n:,} predictions "
                "are correct: check that the gold documents have the component's annotation"
            )
        return math.exp(fitted)


def golden_section(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a unimodal function between low and high, by golden-section search."""
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


@dataclass(repr=False)
class Calibrated(Result):
    """A calibrated component.

    name: of the component. temperature, scaling: the new settings. n, n_left_out: numbers of
    predictions that gold can and cannot judge. accuracy: the share of correct ones. tables:
    reliability before and after, by title. unknown: gold labels that the component does not have.
    """

    name: str
    temperature: float
    scaling: PlattScaling | None
    n: int
    n_left_out: int
    accuracy: float
    tables: dict[str, Reliability]
    unknown: list[str]

    def to_json(self) -> dict[str, Any]:
        tables = {k: {"error": t.error, **as_json(t)} for k, t in self.tables.items()}
        return super().to_json() | {"tables": tables}

    def rows(self) -> list[tuple[str, ...]]:
        rows = [(title, f"{table.error:.4f}") for title, table in self.tables.items()]
        return [("on the documents of the fit", "expected calibration error"), *rows]

    def plot(self) -> Any:
        """Return a Matplotlib figure: accuracy and number of predictions by confidence."""
        n = len(self.tables)
        layout: Any = {"width": 5 * n, "height": 5, "height_ratios": (3, 1)}
        figure, axes = make_axes(2, n, sharex=True, squeeze=False, **layout)
        for (what, table), (above, below) in zip(self.tables.items(), axes.T, strict=True):
            plot_reliability(above, *table, self.name)
            title = f"{what}\nexpected calibration error {table.error:.3f}"
            above.set(title=title, xlabel="", ylim=(0, 1))
            n_bins = len(table.counts)
            below.bar((np.arange(n_bins) + 0.5) / n_bins, table.counts, width=0.9 / n_bins)
            below.set(yscale="log", ylabel="predictions", xlabel="confidence", xlim=(0, 1))
            below.set_ylim(bottom=0.8)
            below.tick_params(which="minor", labelleft=False)
        return figure


def calibrate(
    nlp: Language,
    gold: Sequence[Doc],
    pipe: str | None = None,
    *,
    by: str | None = None,
) -> Calibrated:
    """Fit the temperature that calibrates a component's confidences, and set it.

    From then on the component annotates confidences. gold: documents outside of the training data.
    pipe: name of the component, None for the only one. by: "label" or "length" adds Platt scaling
    by group. ValueError with a promise, and as from `Calibration`.
    """
    name, labeler = find_labeler(nlp, pipe)
    if labeler.control:
        raise ValueError(
            f"{name} keeps a promise with thresholds for its temperature. Calibrate a pipeline "
            "first, then run `control`"
        )
    if by is not None:
        check_grouping(name, labeler.codec, by)
    calibration = Calibration(labeler, make_examples(nlp, name, gold), ignore_annotation=False)
    temperature = calibration.fit()
    scaling = None if by is None else calibration.fit_scaling(temperature, by)
    fits = [("before", labeler.temperature, labeler.calibration), ("after", temperature, None)]
    if by is not None:
        fits.append((f"by {by}", temperature, scaling))
    tables = {
        f"{what}, temperature {t:.2f}": measure_reliability(
            calibration.confidence(t, maps), calibration.correct
        )
        for what, t, maps in fits
    }
    labeler.annotate = (*dict.fromkeys([*labeler.annotate, "confidence"]),)
    labeler.temperature, labeler.calibration = temperature, scaling
    labeler.calibrated_on = hash_texts(gold)
    accuracy = float(calibration.correct.mean())
    counts = len(calibration.correct), calibration.n_left_out
    unknown = sorted(calibration.labels - set(labeler.labels))
    return Calibrated(name, temperature, scaling, *counts, accuracy, tables, unknown)
