"""A watch on drift: are new documents like the documents of a promise? It keeps counts, no text."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.loading import annotate_before, find_labeler
from spacy_bcrf.pipeline.apply_thresholds import precision_thresholds
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.result import Result

from .evidence import GRIDS, Loss, Promise, show_promise, split_level
from .risk import Floats, estimate_documents, fewest_documents

MIN_REFERENCE = 50
"""Smallest number of documents of a reference."""

_SHARES, _NUMBERS = np.linspace(0, 1, 41)[1:-1], np.geomspace(1, 4096, 40).round(2)[:-1]
BINS: dict[str, Floats] = {
    "spans a document": np.arange(0.5, 39.5),
    "tokens a document": _NUMBERS,
    "mean probability": _SHARES,
    "expected precision": _SHARES,
    "expected recall": _SHARES,
    "unknown features": _SHARES,
}
"""The bounds (39,) between the 40 bins of each measure. No data choose them: the watch is exact."""

MEASURES = tuple(BINS)
_J = len(MEASURES)
SHAPES = ((_J, 40), (_J, 40), (2, _J), (_J, 2, 4), (_J,))
"""The arrays of a `Watch`, in the order of its fields."""


Spans = list[tuple[NDArray, NDArray]]
"""Labels and posteriors by document: predictions of a precision promise, else candidates."""


class Comparison(NamedTuple):
    """Means of a measure, of new documents and of the reference, with Holm's p of two samples.

    evidence: the largest capital of a bet that they differ, divided by the number of measures.
    """

    measure: str
    reference: float
    new: float
    p: float
    evidence: float


@dataclass
class Watch(Result):
    """The counts of a reference and of all new documents so far, for J measures.

    fingerprint: hash of the component's settings. reference, new: histograms int (J, 40). sums: (2,
    J) of the values. bets: (J, 2, 4) of each of two bets: number, sum, sum of squares, log capital.
    peak: (J,) the largest log capital. n_docs: documents of the reference, and new ones.
    """

    fingerprint: str
    reference: NDArray[np.int64]
    new: NDArray[np.int64]
    sums: Floats
    bets: Floats
    peak: Floats
    n_docs: list[int]

    @classmethod
    def start(cls, fingerprint: str, values: Floats) -> Watch:
        """Return a watch on documents like these. values: (D, J), NaN if undefined."""
        reference, new, sums, bets, peak = map(np.zeros, SHAPES)
        reference += _count(values)
        sums[0] = np.nansum(values, 0)
        counts = reference.astype("int64"), new.astype("int64")
        return cls(fingerprint, *counts, sums, bets, peak, [len(values), 0])

    def update(self, values: Floats) -> None:
        """Bet on each new document in turn, before it counts. values: (D, J).

        The conformal p-value of a document is its rank among all documents before it. If the
        documents are exchangeable, these values are uniform and independent (Vovk et al. 2003), so
        no bet on them gains: the capital reaches c with probability 1 / c at most, however often
        one looks. One bet is on the mean rank, one on its distance from the middle.
        """
        for start in range(0, len(values), 1000):
            self._update(values[start : start + 1000])

    def _update(self, values: Floats) -> None:
        bins, is_known = _find_bins(values), ~np.isnan(values)
        # (D, J, 40): the counts of all documents up to each one, and of these from each bin on.
        counts = ((np.arange(40) == bins[..., None]) & is_known[..., None]).cumsum(0)
        counts += self.reference + self.new
        above = counts[..., ::-1].cumsum(2)[..., ::-1]
        at_or_above, ties = (
            np.take_along_axis(x, bins[..., None], 2)[..., 0] for x in (above, counts)
        )
        # A number for each document and measure, the same however the documents are split.
        numbers = np.random.PCG64(0).advance(self.n_docs[1] * len(MEASURES))
        p = at_or_above - ties * np.random.Generator(numbers).random(ties.shape)
        p /= above[..., 0].clip(min=1)
        x = np.stack([p - 0.5, np.abs(2 * p - 1) - 0.5], 2) * is_known[..., None]
        moves = np.stack([is_known[..., None] | np.zeros(2, bool), x, x**2], 3)
        before = self.bets[..., :3] + moves.cumsum(0) - moves
        n, total, squares = np.moveaxis(before, 3, 0)
        mean = total / (n + 1)
        bet = (mean / ((squares + 1 / 12) / (n + 1))).clip(-1.8, 1.8)
        moves = np.concatenate([moves, np.log1p(bet * x)[..., None]], 3)
        capital = np.logaddexp(*np.moveaxis(self.bets[..., 3] + moves[..., 3].cumsum(0), 2, 0))
        self.peak = np.maximum(self.peak, capital.max(0) - math.log(2))
        self.bets += moves.sum(0)
        self.new += _count(values)
        self.sums[1] += np.nansum(values, 0)
        self.n_docs[1] += len(values)

    def compare(self) -> list[Comparison]:
        """Return the comparison of each measure that both sides have."""
        n, m = self.reference.sum(1), self.new.sum(1)
        both = self.reference, self.new
        shares = [counts.cumsum(1) / counts.sum(1).clip(min=1)[:, None] for counts in both]
        distance = np.abs(shares[0] - shares[1]).max(1)
        p = np.array([_ks_p_value(*row) for row in zip(distance, n, m, strict=True)])
        used = np.flatnonzero((n > 0) & (m > 0))
        order = used[np.argsort(p[used], kind="stable")]
        # Holm (1979)
        p[order] = np.maximum.accumulate((p[order] * np.arange(len(order), 0, -1)).clip(max=1))
        means = self.sums / np.maximum([n, m], 1)
        evidence = np.exp(self.peak.clip(max=700)) / len(MEASURES)
        columns = np.stack([*means, p, evidence], 1).tolist()
        return [Comparison(MEASURES[j], *columns[j]) for j in used.tolist()]

    @classmethod
    def from_json(cls, values: Any) -> Watch:
        """Read `to_json`. ValueError for other values."""
        try:
            given: Any = {k: np.array(v) if isinstance(v, list) else v for k, v in values.items()}
            n, new = values["n_docs"]
            watch = cls(**{**given, "n_docs": [int(n), int(new)]})
            parts = (watch.reference, watch.new, watch.sums, watch.bets, watch.peak)
            if tuple(x.shape for x in parts) != SHAPES:
                raise ValueError
        except (TypeError, ValueError, KeyError, AttributeError):
            raise ValueError("is no file of `monitor`; expected one that it wrote") from None
        return watch


def _find_bins(values: Floats) -> NDArray[np.int64]:
    columns = [
        np.searchsorted(BINS[name], np.nan_to_num(values[:, j]), side="right")
        for j, name in enumerate(MEASURES)
    ]
    return np.stack(columns, 1)


def _count(values: Floats) -> NDArray[np.int64]:
    """Return the histograms (J, 40) of values (D, J)."""
    in_bin = (_find_bins(values)[..., None] == np.arange(40)) & ~np.isnan(values)[..., None]
    return in_bin.sum(0)


def _ks_p_value(distance: float, n: int, m: int) -> float:
    """Return Kolmogorov's asymptotic p-value, which is too large for binned values."""
    x = distance * math.sqrt(n * m / max(1, n + m))
    if x < 0.2:
        return 1.0
    k = np.arange(1, 101)
    return float((-2 * (-1.0) ** k @ np.exp(-2 * (k * x) ** 2)).clip(0, 1))


@dataclass(repr=False)
class Monitored(Result):
    """What new documents say about a promise.

    name: the component. n_docs: new documents of this call, n_empty: without words. alarm: the
    evidence of a measure, over all calls, has reached 1 / (1 - confidence). needed: labeled new
    documents that `control` needs, by the expected losses; None if above 100,000 or no promise.
    """

    name: str
    n_docs: int
    n_empty: int
    alarm: bool
    comparisons: list[Comparison]
    promises: list[str]
    needed: int | None
    watch: Watch = field(repr=False)

    @property
    def evidence(self) -> float:
        return max((one.evidence for one in self.comparisons), default=0.0)

    @property
    def message(self) -> str:
        n = f"{self.watch.n_docs[1]:,} new documents"
        if not self.alarm:
            return f"no drift found in {n}, evidence {self.evidence:.3g}"
        worst = max(self.comparisons, key=lambda one: one.evidence)
        found = (
            f"drift: {n} differ from the reference, most in {worst.measure} "
            f"({worst.reference:.3g}, now {worst.new:.3g}; evidence {worst.evidence:,.0f})"
        )
        if not self.promises:
            return found
        found += f". The promise no longer rests on like documents: {'; '.join(self.promises)}. "
        if self.needed is None:
            return f"{found}Train on documents like the new ones, then run `control` again"
        return f"{found}Label about {self.needed:,} new documents and run `control` on them"

    def __repr__(self) -> str:
        return f"Monitored({self.name}: {self.message})"

    def to_json(self) -> dict[str, Any]:
        """Return all values but the watch as JSON values."""
        values = super().to_json()
        measures = {one["measure"]: one for one in values.pop("comparisons")}
        return {**values, "evidence": self.evidence, "measures": measures, "message": self.message}

    def rows(self) -> list[tuple[str, ...]]:
        cells = [(one.measure, *(f"{x:.3g}" for x in one[1:])) for one in self.comparisons]
        return [Comparison._fields, *cells]

    def histograms(self) -> Iterator[tuple[str, list[float], list[float]]]:
        """Yield each measure, and its shares of documents in 40 bins: of the reference and new."""
        for one in self.comparisons:
            j = MEASURES.index(one.measure)
            old, new = (part[j] / part[j].sum() for part in (self.watch.reference, self.watch.new))
            yield one.measure, old.tolist(), new.tolist()


def monitor(
    nlp: Language,
    docs: Iterable[Doc],
    reference: Watch | Iterable[Doc],
    pipe: str | None = None,
    *,
    confidence: float = 0.95,
) -> Monitored:
    """Compare new documents without annotation with the documents of a promise.

    reference: the documents that `control` had, or the `watch` of an earlier result, which goes on:
    one may look after each call, and a false alarm ever has probability 1 - confidence at most. The
    documents should be independent: whole texts, not their sentences.
    ValueError for fewer than MIN_REFERENCE documents, or another component than the watch's.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, both excluded, got {confidence}")
    name, labeler = find_labeler(nlp, pipe)
    if labeler.codec.unit == "word":
        raise ValueError(f"[{name}] words have no promise to watch")
    saved = labeler.settings_as_json()
    settings = {k: saved[k] for k in ("temperature", "control", "threshold")}
    text = json.dumps([name, labeler.labels, settings])
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
    if isinstance(reference, Watch):
        if reference.fingerprint != fingerprint:
            raise ValueError(
                f"[{name}] the component changed since the watch began: labels, temperature or "
                "promise differ. Start a new watch, with a reference"
            )
        watch = reference
    else:
        values, _, _ = measure_docs(nlp, name, labeler, reference)
        if len(values) < MIN_REFERENCE:
            raise ValueError(
                f"[{name}] the reference has {len(values)} documents with words; expected at least "
                f"{MIN_REFERENCE}"
            )
        watch = Watch.start(fingerprint, values)
    values, n_empty, spans = measure_docs(nlp, name, labeler, docs)
    # In a random order, the likeness of neighbours, such as parts of one text, is no evidence.
    watch.update(values[np.random.default_rng(watch.n_docs[1]).permutation(len(values))])
    comparisons = watch.compare()
    evidence = max((one.evidence for one in comparisons), default=0)
    alarm, n = evidence >= 1 / (1 - confidence) - 1e-9, len(values) + n_empty
    return Monitored(name, n, n_empty, alarm, comparisons, *_needed(labeler, spans), watch)


def measure_docs(
    nlp: Language, name: str, labeler: SequenceLabeler, docs: Iterable[Doc]
) -> tuple[Floats, int, Spans]:
    """Return the values (D, J) of the documents with words, how many have none, and their spans."""
    codec, ops = labeler.codec, labeler.model.ops
    chain = sparse_chain(labeler.model)
    promise = labeler.control
    is_precision = promise is not None and promise.promise == "precision"
    if promise is None or is_precision:
        thresholds = precision_thresholds(name, labeler.labels, promise, labeler.threshold)
    else:
        thresholds = promise.by_label(labeler.labels, 1)
    rows: list[list[float]] = []
    spans: Spans = []
    n_empty = 0
    for batch in minibatch(annotate_before(nlp, name, docs), BATCH_SIZE):
        n_all = len(batch)
        batch = [doc for doc in batch if len(doc)]
        n_empty += n_all - len(batch)
        if not batch:
            continue
        potentials = labeler.find_potentials(batch)
        posterior = labeler.posterior(potentials)
        lengths = doc_lengths(batch)
        bounds = lengths.cumsum()
        predicted = codec.predictions(labeler.decode(potentials), lengths)
        p_predicted = labeler.confidences(posterior, predicted)
        of_predicted = bounds.searchsorted(predicted[0], side="right")
        starts, _, labels, p_all = codec.candidates(posterior, float(GRIDS["recall"][0]), ops)
        of_all = bounds.searchsorted(starts, side="right")
        unknown = np.full(len(batch), np.nan)
        if chain is not None:
            n_keys = np.diff(chain.features.keys(batch)[1][[0, *bounds.tolist()]])
            n_known = np.diff(chain.rows(batch).starts[[0, *bounds.tolist()]])
            unknown = 1 - n_known / n_keys.clip(min=1)
        for i in range(len(batch)):
            mine, others = of_predicted == i, of_all == i
            p, label = p_predicted[mine], predicted[2][mine]
            p_other, label_other = p_all[others], labels[others]
            kept = p[p >= thresholds[label]] if is_precision or promise is None else p
            found = p_other[p_other >= thresholds[label_other]]
            mass = found.sum() if promise is not None and not is_precision else kept.sum()
            rows.append(
                [
                    len(p),
                    int(lengths[i]),
                    p.mean() if len(p) else math.nan,
                    kept.mean() if len(kept) else math.nan,
                    min(1, mass / p_other.sum()) if p_other.sum() > 0 else math.nan,
                    unknown[i],
                ]
            )
            spans.append((label, p) if is_precision else (label_other, p_other))
    return np.array(rows, dtype="float64").reshape(-1, len(MEASURES)), n_empty, spans


def _needed(labeler: SequenceLabeler, spans: Spans) -> tuple[list[str], int | None]:
    """Return the promises, and the documents that `control` needs for all by expected losses."""
    promise = labeler.control
    if promise is None or not promise.values:
        return [], None
    kind, loss = promise.promise, Loss(promise.unit, promise.max_units, promise.covered)
    level = (1 - promise.confidence) / len(set(promise.groups))
    numbers, names = [], []
    for labels, value, _ in promise.by_group():
        of_group = Promise(tuple(labels), value, level)
        names.append(show_promise(kind, value, loss, labels))
        budgets = split_level(kind, of_group)
        ids = [labeler.labels.index(label) for label in labels]
        excess = _expected_excess(kind, spans, ids, GRIDS[kind][budgets > 0], 1 - value, loss)
        found = estimate_documents(excess, 1 - value, budgets[budgets > 0], loss.max_units > 1)
        fewest = fewest_documents(1 - value, float(budgets.max()))
        numbers.append(math.inf if found is None else max(found, fewest))
    return names, None if math.inf in numbers else int(max(numbers))


def _expected_excess(
    kind: str, spans: Spans, ids: list[int], thresholds: Floats, risk: float, loss: Loss
) -> Floats:
    """Return the expected excess (D, K) of documents, as `Loss.excess` of gold documents."""
    found = []
    for labels, posteriors in spans:
        p = posteriors[np.isin(labels, ids)].astype("float64")[:, None]
        is_kept = p >= thresholds
        if kind == "precision":
            wrong, total = ((1 - p) * is_kept).sum(0), is_kept.sum(0)
        else:
            wrong, total = (p * ~is_kept).sum(0), np.broadcast_to(p.sum(0), len(thresholds))
        if loss.unit == "document":
            found.append(1 - np.exp(-wrong) - risk * (1 - np.exp(-total)))
        else:
            weight = np.minimum(total, loss.max_units) / loss.max_units
            found.append(weight * (wrong / np.maximum(total, 1e-9) - risk))
    return np.array(found).reshape(-1, len(thresholds))
