"""Reliability of confidences, and the temperature that minimizes the loss of correctness."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from bcrf.chain import Potentials
from spacy_bcrf.layers.decoding import F

from .codecs import Codec
from .confidence import find_keys
from .platt_scaling import GROUPINGS, PlattScaling
from .prediction import BATCH_SIZE
from .queries import PosteriorQueries
from .settings import check_grouping, groupings
from .span_decoder import THRESHOLD, choose_spans, encode_spans

PRIOR, DEVIATION = 1.5, 0.5
"""Median of the temperature before predictions are seen, and deviation of its logarithm."""
BOUNDS = 0.1, 30.0
"""Temperatures among which `Calibration.fit_few` chooses."""
NEAR = 1.4
"""Largest factor between a temperature and one near it."""
USUAL_F, USUAL_SPANS = 0.6, 20
"""F before spans are seen, and the number of spans that it counts as."""
STEPS = 4
"""Steps of `Calibration.fit_threshold`."""
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


def find_gold(codec: Codec, doc: Doc) -> set[tuple[int, int, str]] | None:
    """Return the spans of a gold document in characters, None unless it is annotated as a whole."""
    if codec.unannotated(doc).any():
        return None
    spans = {(span.start_char, span.end_char, span.label_) for span in codec.find_spans(doc)}
    return spans.union(codec.find_misaligned(doc))


def measure_written(codec: Codec, examples: Sequence[Example]) -> float | None:
    """Return the error of the probabilities in predicted documents, None without any.

    Of gold documents that are annotated as a whole.
    """
    confidence, correct = [], []
    for example in examples:
        doc = example.predicted
        spans = codec.find_spans(doc)
        found = [
            (p, (span.start_char, span.end_char, span.label_))
            for span, p in zip(spans, codec.probabilities(doc, spans), strict=True)
            if p is not None
        ]
        gold = find_gold(codec, example.reference)
        if gold is not None:
            confidence += [p for p, _ in found]
            correct += [span in gold for _, span in found]
    if not confidence:
        return None
    return measure_reliability(np.array(confidence), np.array(correct)).error


class Calibration:
    """A component's predictions on gold examples, and their confidence at any temperature.

    The components before it have annotated the predicted documents. ignore_annotation: see
    `PosteriorQueries`. decode: returns the tags of potentials. By default `pipe.decode`, or the
    best labeling for the decoder for F, whose spans depend on the temperature.
    """

    def __init__(
        self,
        pipe: PosteriorQueries,
        examples: Iterable[Example],
        *,
        ignore_annotation: bool = True,
        decode: Callable[[Potentials], NDArray[np.int32]] | None = None,
    ) -> None:
        self._pipe = pipe
        decode = decode or (pipe.labeling.decode if pipe.labeling.decoder == F else pipe.decode)
        self._keys: dict[str, list[str]] = {by: [] for by in GROUPINGS}
        self._batches: list[tuple[list[Example], Potentials, Any]] = []
        self.n_left_out = 0
        """The number of predictions that gold cannot judge."""
        correct = []
        for batch in minibatch(examples, BATCH_SIZE):
            docs = [example.predicted for example in batch]
            potentials = pipe.find_potentials(docs, ignore_annotation)
            predictions, is_correct, n_left_out = pipe.judge(batch, decode(potentials))
            self.n_left_out += n_left_out
            self._batches.append((batch, potentials, predictions))
            for by in groupings(pipe.codec):
                self._keys[by] += find_keys(pipe.codec, by, predictions)
            correct.append(is_correct)
        self.correct = np.concatenate([np.zeros(0, dtype=bool), *correct])
        """Whether each of M predictions that gold can judge is correct, bool (M,)."""

    def extend(self, other: "Calibration") -> None:
        """Add the predictions of a component with the same labels and inference (cross-fitting)."""
        self.correct = np.concatenate([self.correct, other.correct])
        self._batches += other._batches
        for by, keys in other._keys.items():
            self._keys[by] += keys

    def confidence(
        self, temperature: float, scaling: PlattScaling | None = None
    ) -> NDArray[np.float64]:
        """Return the probabilities (M,) of the predictions, mapped by `scaling`."""
        found = [
            self._pipe.confidences(self._pipe.posterior(potentials, temperature), predictions)
            for _, potentials, predictions in self._batches
        ]
        p = np.concatenate([np.zeros(0), *found]).astype("float64")
        return p if scaling is None else scaling.apply(p, self._keys[scaling.by])

    def fit_scaling(self, temperature: float, by: str) -> PlattScaling:
        """Fit maps of confidences by label or length. ValueError if predictions have no length."""
        check_grouping(self._pipe.name, self._pipe.codec, by)
        return PlattScaling.fit(by, self.confidence(temperature), self.correct, self._keys[by])

    def loss(self, temperature: float, among: NDArray[np.bool_] | None = None) -> float:
        """Return the mean binary negative log-likelihood of correctness, of all or some (M,)."""
        confidence = self.confidence(temperature).clip(_EPS, 1 - _EPS)
        losses = -np.log(np.where(self.correct, confidence, 1 - confidence))
        return float(losses.mean() if among is None else losses[among].mean())

    def fit_few(
        self, among: NDArray[np.bool_] | None = None, *, near: float | None = None
    ) -> float:
        """Return the most probable temperature under a log-normal prior, PRIOR without predictions.

        With hundreds of predictions it is that of `fit`. among: the predictions (M,) to use. near:
        a temperature from which it differs little, which saves half of the time.
        """
        n = len(self.correct) if among is None else int(among.sum())
        if not n:
            return PRIOR

        def loss(x: float) -> float:
            surprise = ((x - math.log(PRIOR)) / DEVIATION) ** 2 / 2
            return n * self.loss(math.exp(x), among) + surprise

        low, high = BOUNDS if near is None else (near / NEAR, near * NEAR)
        found = math.exp(golden_section(loss, math.log(low), math.log(high), 0.02))
        is_at_bound = not low * 1.03 < found < high / 1.03
        return self.fit_few(among) if near is not None and is_at_bound else found

    def fit(self) -> float:
        """Return the temperature between 1/1000 and 1000 with the smallest loss.

        The range is wide because a perceptron learns scores of any size. ValueError unless some
        predictions are correct and some are wrong, and if the loss is smallest at a bound.
        """
        name, n = self._pipe.name, len(self.correct)
        if not n:
            raise ValueError(
                f"[{name}] no prediction has gold annotation to compare with in "
                f"{sum(len(batch) for batch, *_ in self._batches):,} documents"
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

    def fit_threshold(self, temperature: float) -> float:
        """Return the threshold of the decoder for F: half of the best F that it reaches on gold.

        The spans with the largest expected F are those more probable than half of it (Lipton et al.
        2014, theorem 1). Each step takes half of the last F (Dinkelbach 1967). USUAL_F counts as
        USUAL_SPANS spans.
        """
        pipe, codec, ops = self._pipe, self._pipe.codec, self._pipe.model.ops
        gold = (eg.reference for batch, *_ in self._batches for eg in batch)
        n_gold = sum(len(codec.find_spans(doc)) for doc in gold)
        threshold, best = THRESHOLD, 0.0
        for _ in range(STEPS):
            n_right = n_found = 0
            thresholds = np.full(len(codec.labels), threshold)
            for examples, potentials, _ in self._batches:
                posterior = pipe.posterior(potentials, temperature)
                spans, _ = choose_spans(codec, posterior, thresholds, ops)
                tags = encode_spans(codec, spans, ops.to_numpy(potentials.lengths))
                _, correct, _ = pipe.judge(examples, tags)
                n_right, n_found = n_right + int(correct.sum()), n_found + len(correct)
            f = (2 * n_right + USUAL_F * USUAL_SPANS) / (n_found + n_gold + USUAL_SPANS)
            threshold, best = f / 2, max(best, f)
        return round(best / 2, 3)


def golden_section(
    function: Callable[[float], float], low: float, high: float, tolerance: float = 0.01
) -> float:
    """Return the minimum of a unimodal function between low and high, by golden-section search."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    while high - low > tolerance:
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return (low + high) / 2
