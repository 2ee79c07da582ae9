"""`curve`: F against the number of training documents, and what more would bring."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_bcrf.judging.evaluation import SpanCounts, count_exact, score
from spacy_bcrf.judging.folds import find_trainer
from spacy_bcrf.judging.resampling import percentile_interval
from spacy_bcrf.loading import make_examples
from spacy_bcrf.promises.seen import drop_copies
from spacy_bcrf.result import Result, make_axes

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the training documents."""
FACTORS = (2, 4)
"""Multiples of the training documents that the forecast is for."""
POWERS = np.linspace(0.05, 1.5, 30)
"""Powers of the curve."""
RESAMPLES = 1000
FLAT = 0.005
"""A smaller gain of F is not worth twice the annotation."""


class Point(NamedTuple):
    """F with a number of training documents. low, high: its 95% interval, NaN of one document."""

    n_docs: int
    f: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = f" ({100 * self.low:.1f} to {100 * self.high:.1f})"
        return f"{100 * self.f:.1f}{interval * (not math.isnan(self.low))}"


@dataclass(repr=False)
class LearningCurve(Result):
    """F on dev documents against the number of training documents.

    name: the component. measured, forecast: points of the curve. gain: of twice the documents,
    in F, with its 95% interval. curve: (ceiling, scale, power) of F = ceiling - scale n^-power.
    notes: doubts about the documents.
    """

    name: str
    measured: list[Point]
    forecast: list[Point]
    gain: Point
    curve: tuple[float, float, float]
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"LearningCurve({self.name}: {self.summary})"

    @property
    def summary(self) -> str:
        """F now, and how much the fitted curve rises to twice the documents."""
        last, gain = self.measured[-1], self.gain
        n = f"{last.n_docs:,} documents"
        return f"F {last} with {n}; twice as many raise the fitted curve by {gain}"

    @property
    def is_flat(self) -> bool:
        """Whether twice the documents gain less than FLAT, or may gain nothing."""
        return self.gain.low <= 0 or self.gain.f < FLAT

    def rows(self) -> list[tuple[str, ...]]:
        points = [("measured", p) for p in self.measured] + [("forecast", p) for p in self.forecast]
        return [("documents", "F", ""), *((f"{p.n_docs:,}", str(p), what) for what, p in points)]

    def plot(self) -> Any:
        """Return a Matplotlib figure: measured F with its interval, and the forecast."""
        figure, axes = make_axes()
        for what, points in (("measured", self.measured), ("forecast", self.forecast)):
            n, f, low, high = np.array(points).T
            bars = np.stack([f - low, high - f]).clip(min=0)
            label = f"{what}, 95% interval"
            axes.errorbar(n, f, bars, linestyle="none", marker="o", capsize=3, label=label)
        n = np.geomspace(self.measured[0].n_docs, self.forecast[-1].n_docs, 100)
        ceiling, scale, power = self.curve
        axes.plot(n, ceiling - scale * n**-power, color="gray", linestyle="--", label="fitted")
        axes.set(xscale="log", xlabel="training documents", ylabel="F on dev")
        axes.legend()
        return figure


def curve(
    gold: Sequence[Doc],
    dev: Sequence[Doc],
    config: str | Path | None = None,
    pipe: str | None = None,
    *,
    shares: Sequence[float] = SHARES,
    repeats: int = 3,
    lang: str = "xx",
    seed: int = 0,
    corpus: str = "the corpus",
    dev_corpus: str = "the dev corpus",
) -> LearningCurve:
    """Train on growing parts of a corpus, and forecast F with more documents.

    The curve is an inverse power law, F = ceiling - scale n^-power (Figueroa et al. 2012), fitted
    by least squares that are weighted by the variances. Intervals are percentiles of bootstrap
    samples of the dev documents and of the parts, each with a curve of its own. The forecast
    assumes that more documents come from the same source. Documents with equal texts count once.

    gold: training documents. config: a training config, None for a sparse linear chain for
    entities. pipe: name of the component, None for the only one. shares: of `gold`. repeats: random
    parts of each share. lang: of the sparse chain. corpus, dev_corpus: names, for errors.
    ValueError without annotation in either part, and for fewer than three sizes.
    """
    if not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares must be above 0 and at most 1, got {list(shares)}")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    gold, notes = drop_copies(gold, corpus)
    dev, more = drop_copies(dev, dev_corpus)
    sizes = sorted({max(1, round(share * len(gold))) for share in shares})
    if len(sizes) < 3:
        n = f"{len(gold):,} documents"
        raise ValueError(f"{corpus}: {n} are too few for a curve of three sizes")
    trainer = find_trainer(corpus, gold, config, pipe, lang)
    find_trainer(dev_corpus, dev, config, pipe, lang)  # checks the annotation of dev
    counts: list[list[SpanCounts]] = [[] for _ in sizes]
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(gold)) for _ in range(repeats)]
    # All documents make only one part.
    n_parts = [1 if size == len(gold) else repeats for size in sizes]
    runs = [(i, order) for i, n in enumerate(n_parts) for order in orders[:n]]
    for i, order in tqdm(runs, "training", unit="parts"):
        nlp = trainer.train([gold[j] for j in sorted(order[: sizes[i]].tolist())])
        counts[i].append(count_exact(nlp, trainer.name, make_examples(nlp, trainer.name, dev)))
    found = fit_curve(trainer.name, np.array(sizes), [np.stack(each) for each in counts], rng)
    found.notes = [*notes, *more]
    return found


def fit_curve(
    name: str, sizes: NDArray, counts: list[SpanCounts], rng: np.random.Generator
) -> LearningCurve:
    """Return the curve of counts (R, D, 4) by size."""
    n_dev = counts[0].shape[1]
    draws = rng.multinomial(n_dev, np.full(n_dev, 1 / n_dev), RESAMPLES)
    samples, of_one_document = np.empty((RESAMPLES, len(sizes))), np.zeros(RESAMPLES)
    for i, of_size in enumerate(counts):
        sums = np.tensordot(draws, of_size, (1, 1))  # (RESAMPLES, R, 4)
        f = np.nan_to_num(score(sums)[..., 2])
        # Parts drawn again from R parts vary less than R new parts: correct by R / (R - 1).
        n_parts = f.shape[1]
        chosen = rng.integers(0, n_parts, f.shape)
        moved = np.take_along_axis(f, chosen, 1).mean(1) - f.mean(1)
        if n_parts > 1:
            moved *= np.sqrt(n_parts / (n_parts - 1))
            of_one_document = moved * np.sqrt(n_parts * sizes[i])
        else:
            # One part has no spread of its own: take the size before, scaled by documents.
            moved = rng.permutation(of_one_document) / np.sqrt(sizes[i])
        samples[:, i] = f.mean(1) + moved
    f = np.array([np.nan_to_num(score(x.sum(1))[:, 2]).mean() for x in counts])
    weights = 1 / (samples.var(0) + 1e-6)
    whole = fit_power_law(sizes, f[None], weights)
    curves = fit_power_law(sizes, samples, weights)
    # The intervals lie around the curve of the whole corpus.
    more = sizes[-1] * np.array((1, *FACTORS))
    (now, *later), drawn = value(whole, more)[0], value(curves, more)
    if n_dev == 1:
        samples[:] = drawn[:] = np.nan
    of_gain = percentile_interval(drawn[:, 1] - drawn[:, 0])
    bounds, (low, high) = (percentile_interval(x).clip(0, 1) for x in (drawn, samples))
    points = [Point(int(n), *map(float, x)) for n, *x in zip(sizes, f, low, high, strict=True)]
    forecast = [
        Point(int(n), *map(float, x))
        for n, *x in zip(more[1:], later, *(bound[1:] for bound in bounds), strict=True)
    ]
    gain = Point(int(more[1]), float(later[0] - now), *map(float, of_gain))
    ceiling, scale, power = whole[0].tolist()
    return LearningCurve(name, points, forecast, gain, (ceiling, scale, power))


def fit_power_law(sizes: NDArray, f: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Return the curves (B, 3) of F (B, S): ceiling, scale and power.

    Weighted least squares for each of POWERS, scale >= 0 and ceiling <= 1. sizes, weights: (S,).
    """
    w = weights / weights.sum()
    x = sizes[:, None].astype("float64") ** -POWERS  # (S, P)
    mean_x, mean_f = w @ x, f @ w
    spread = w @ (x - mean_x) ** 2
    slope = ((f - mean_f[:, None]) * w) @ (x - mean_x) / spread
    slope = slope.clip(max=0)
    ceiling = mean_f[:, None] - slope * mean_x
    is_high = ceiling > 1
    slope = np.where(is_high, ((f - 1) * w) @ x / (w @ x**2), slope)
    ceiling = np.where(is_high, 1, ceiling)
    fitted = ceiling[:, None] + slope[:, None] * x
    best = (w[:, None] * (f[:, :, None] - fitted) ** 2).sum(1).argmin(1)[:, None]
    columns = [np.take_along_axis(part, best, 1)[:, 0] for part in (ceiling, -slope)]
    return np.stack([*columns, POWERS[best[:, 0]]], 1)


def value(curves: NDArray, sizes: NDArray) -> NDArray[np.float64]:
    """Return F (B, S) of curves (B, 3) with numbers of documents (S,)."""
    ceiling, scale, power = curves.T[:, :, None]
    found: NDArray[np.float64] = ceiling - scale * sizes.astype("float64") ** -power
    return found
