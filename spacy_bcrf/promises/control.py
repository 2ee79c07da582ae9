"""`control`: thresholds on exact posteriors that keep a promise of precision or recall."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from spacy_bcrf.loading import find_labeler, make_examples
from spacy_bcrf.pipeline.held_out import hash_texts
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import PROMISES, Control
from spacy_bcrf.result import Result, make_axes

from .evidence import (
    GRIDS,
    MOST_NAMED,
    SPANS,
    Evidence,
    Kept,
    Loss,
    Promise,
    fit_threshold,
    name_labels,
    show_promise,
)
from .risk import Floats, UnitCounts, binomial_interval, count_units
from .seen import check_unseen, drop_copies, note_left_out

VALUES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""The promised values of a `PromiseTable`."""
MANY_CANDIDATES = 10
"""Candidates a gold span from which on a note says that they are too many."""
ASSUMPTION = (
    "The promise holds for new documents from the same source as those of `control`, which neither "
    "training nor `calibrate` has seen. `monitor` watches whether new documents are like them"
)


def split_promise(
    labels: Sequence[str], value: float | None, of_labels: Mapping[Any, float], confidence: float
) -> list[Promise]:
    """Return the promises: one of each group in `of_labels`, and one of all other labels together.

    of_labels: by label or tuple of labels. Bonferroni: each promise has an equal part of 1 -
    confidence. ValueError for labels that are unknown or have two promises, and numbers that are
    not between 0 and 1.
    """
    groups = {(key,) if isinstance(key, str) else tuple(key): x for key, x in of_labels.items()}
    named = {"confidence": confidence, **{", ".join(key): x for key, x in groups.items()}}
    if value is not None:
        named["the promise"] = value
    for name, number in named.items():
        if not 0 < number < 1:
            raise ValueError(f"{name} must be between 0 and 1, both excluded, got {number}")
    given = [label for group in groups for label in group]
    if unknown := [label for label in given if label not in labels]:
        raise ValueError(
            f"unknown labels {', '.join(unknown)}; the component has {', '.join(labels)}"
        )
    if twice := sorted({label for label in given if given.count(label) > 1}):
        raise ValueError(f"{', '.join(twice)}: has several promises, which contradict each other")
    others = tuple(label for label in labels if label not in given)
    if value is not None and others:
        groups[others] = value
    return [Promise(group, x, (1 - confidence) / len(groups)) for group, x in groups.items()]


@dataclass(repr=False)
class Controlled(Result):
    """A component with promises of a kind, precision or recall, and their thresholds.

    n_docs, n_candidates: of gold documents, and of candidates in them. notes: doubts about them.
    """

    name: str
    kind: str
    kept: list[Kept]
    n_docs: int
    n_candidates: int
    loss: Loss
    notes: list[str] = field(default_factory=list)

    def rows(self) -> list[tuple[str, ...]]:
        units = "predictions" if self.kind == "precision" else "gold spans"
        rows = [("labels", "promised", "threshold", "documents", "measured", f"{units} kept")]
        for (labels, value, _), threshold, n, measured, share in self.kept:
            promised = show_promise(self.kind, value, self.loss)
            numbers = f"{threshold:.4g}", f"{n:,}", f"{measured:.4f}", f"{100 * share:.1f}%"
            rows.append((name_labels(labels), promised, *numbers))
        return [*rows]

    def lines(self) -> Iterator[str]:
        """Yield the table as text, and the labels that it only counts."""
        yield from super().lines()
        for (labels, *_), *_ in self.kept:
            if len(labels) > MOST_NAMED:
                yield from wrap(f"{name_labels(labels)}: {', '.join(labels)}", 100)

    def plot(self) -> Any:
        """Return a Matplotlib figure: promised and measured values of each promise."""
        figure, axes = make_axes()
        names = [name_labels(one.promise.labels) for one in self.kept]
        axes.barh(names, [one.measured for one in self.kept], color="silver", label="measured")
        values = [one.promise.value for one in self.kept]
        axes.scatter(values, names, marker="|", s=400, color="black", label="promised")
        axes.set_xlabel(self.kind)
        axes.legend()
        return figure


def control(
    nlp: Language,
    gold: Sequence[Doc],
    pipe: str | None = None,
    *,
    recall: float | None = None,
    precision: float | None = None,
    of_labels: Mapping[Any, float] | None = None,
    confidence: float = 0.95,
    loss: Loss = SPANS,
) -> Controlled:
    """Find posterior thresholds that keep a promise on new documents, and set them.

    The promise holds for documents from the same source as `gold`, which neither training nor
    `calibrate` has seen. Documents with equal texts count once. recall, precision: the promised
    value, one of them. of_labels: promises of labels or tuples of labels. confidence: that all
    promises are kept. loss: of a document; a covered one is for recall, and for all labels
    together.
    ValueError as from `check_unseen`, `split_promise`, `Loss`, `Evidence` and `fit_threshold`.
    """
    if (recall is None) == (precision is None):
        raise ValueError("expected either recall or precision, such as precision 0.95")
    kind, value = ("precision", precision) if recall is None else ("recall", recall)
    loss.check(kind, of_labels)
    name, labeler = find_labeler(nlp, pipe)
    promises = split_promise(labeler.labels, value, of_labels or {}, confidence)
    gold, notes = drop_copies(gold)
    notes += check_unseen(labeler, gold)
    examples = make_examples(nlp, name, gold)
    evidence = Evidence(labeler, examples, kind, loss.covered)
    notes += note_left_out(evidence.n_left_out, name) + doubt_source(labeler, examples)
    kept = [fit_threshold(evidence.of(one.labels), kind, one, loss, name) for one in promises]
    found = [(label, i, one) for i, one in enumerate(kept) for label in one.promise.labels]
    labeler.control = Control(
        kind,
        tuple(label for label, *_ in found),
        tuple(one.threshold for *_, one in found),
        labeler.temperature,
        tuple(one.promise.value for *_, one in found),
        tuple(i for _, i, _ in found),
        confidence,
        fitted_on=hash_texts(gold),
        **asdict(loss),
    )
    n_candidates = sum(
        len(prediction.candidates or ())
        for batch in minibatch(examples, nlp.batch_size)
        for prediction in labeler.predict([example.predicted for example in batch])
    )
    if n_candidates > MANY_CANDIDATES * (n_gold := len(evidence.units.docs)):
        notes.append(
            f"{n_candidates:,} candidates for {n_gold:,} gold spans: the component finds too few "
            "of them, so nearly all is a candidate. Train it on more documents, or promise less"
        )
    return Controlled(name, kind, kept, len(examples), n_candidates, loss, notes)


def measure_promises(
    labeler: Any, examples: Sequence[Example], promise: Control | None = None
) -> list[dict[str, Any]]:
    """Return the promises of a component and what gold documents reach, as JSON values.

    promise: by default its own.
    `low` and `high` bound the reached value with confidence 95%: they are exact for promises a
    document, else from the test that grants promises. All are None without a unit.
    """
    promise = promise or labeler.control
    if promise is None or not promise.values:
        return []
    loss = Loss(promise.unit, promise.max_units, promise.covered)
    evidence = _try_evidence(labeler, examples, promise.promise, loss)
    found = []
    for labels, value, threshold in promise.by_group():
        row = {"kind": promise.promise, "labels": labels, "promised": value}
        row |= {"promise": show_promise(promise.promise, value, loss), "documents": 0}
        row |= {"unit": loss.unit, "reached": None, "low": None, "high": None}
        units = None if evidence is None else evidence.of(labels)
        if units is not None and len(units.docs):
            counts = count_units(promise.promise, units, np.array([threshold], dtype="float64"))
            row |= _reached(counts.take(counts.total[:, 0] > 0), loss)
        found.append(row)
    return found


def show_reached(row: dict[str, Any]) -> str:
    line = f"{name_labels(row['labels'])}: {row['promise']} promised"
    if row["reached"] is None:
        return f"{line}, not measured"
    reached = "{reached:.3f} reached ({low:.3f} to {high:.3f}), {documents:,} documents"
    return f"{line}, {reached.format(**row)}"


def _reached(counts: UnitCounts, loss: Loss) -> dict[str, Any]:
    n = len(counts.total)
    if not n:
        return {}
    reached = 1 - float(loss.mean(counts)[0])
    if loss.unit == "document":
        bounds = binomial_interval(round(n * (1 - reached)), n)
    else:
        right = UnitCounts(counts.total - counts.wrong, counts.total)
        bounds = 1 - _largest_risk(right, loss), _largest_risk(counts, loss)
    return {"documents": n, "reached": reached, "low": 1 - bounds[1], "high": 1 - bounds[0]}


def _largest_risk(counts: UnitCounts, loss: Loss, level: float = 0.025) -> float:
    """Return the least risk that the test of promises rejects at this level, by bisection.

    counts: (D, 1). Larger risks are rejected too.
    """
    low, high = float(loss.mean(counts)[0]), 1.0
    while high - low > 1e-6:
        risk = (low + high) / 2
        p = loss.p_values(loss.excess(counts, risk), risk, level)
        low, high = (risk, high) if p[0] > level else (low, risk)
    return high


def doubt_source(labeler: Any, examples: Sequence[Example]) -> list[str]:
    """Return a note if calibrated probabilities are wrong on documents: another source, perhaps."""
    if not labeler.calibrated_on:
        return []
    evidence = _try_evidence(labeler, examples, "precision")
    if evidence is None:
        return []
    units = evidence.units
    excess = units.sum_by_doc(units.posteriors - units.correct)
    of_chance = (units.posteriors * (1 - units.posteriors)).sum()
    z = excess.sum() / max(1e-12, math.sqrt(max(of_chance, (excess**2).sum())))
    if math.erfc(abs(z) / math.sqrt(2)) > 0.01:
        return []
    return [
        f"the calibrated probabilities are {units.posteriors.mean():.3f} on average, but "
        f"{units.correct.mean():.3f} of the predictions are right: these documents may come from "
        "another source than the documents of `calibrate`. The promise is about their source"
    ]


def _try_evidence(
    labeler: Any, examples: Sequence[Example], kind: str, loss: Loss = SPANS
) -> Evidence | None:
    """Return what a promise is about; None without units, or if the annotation has no promise."""
    with suppress(ValueError):
        return Evidence(labeler, examples, kind, loss.covered)
    return None


class Offer(NamedTuple):
    """A promise that could be made, and what it costs.

    threshold: None if no threshold keeps the promise, and `reason` says why. measured: of the
    documents. recall: the share of gold spans that reach it, NaN if unknown. spans: a document.
    """

    kind: str
    value: float
    threshold: float | None
    measured: float
    recall: float
    spans: float
    reason: str = ""


@dataclass(repr=False)
class PromiseTable(Result):
    """All promises that a component can make at once, and costs. confidence_each: of one alone."""

    name: str
    loss: Loss
    offers: list[Offer]
    n_docs: int
    confidence: float
    confidence_each: float
    notes: list[str]

    def rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]]
        rows = [("promise", "threshold", "measured", "recall", "spans a document")]
        for o in self.offers:
            found = ("none", "", "", "")
            if o.threshold is not None:
                recall = "" if math.isnan(o.recall) else f"{o.recall:.4f}"
                found = f"{o.threshold:.4g}", f"{o.measured:.4f}", recall, f"{o.spans:.2f}"
            rows.append((show_promise(o.kind, o.value, self.loss), *found))
        return rows

    def plot(self) -> Any:
        """Return a Matplotlib figure: recall by promised precision, spans by promised recall."""
        figure, both = make_axes(1, 2, width=9, height=4)
        costs = {"precision": ("recall", "recall"), "recall": ("spans", "candidates a document")}
        for axes, kind in zip(both, PROMISES, strict=True):
            cost, label = costs[kind]
            made = [o for o in self.offers if o.kind == kind and o.threshold is not None]
            axes.plot([o.value for o in made], [getattr(o, cost) for o in made], marker="o")
            axes.set(xlabel=f"promised {kind}", ylabel=label, xlim=(min(VALUES), 1))
        return figure


def list_promises(
    nlp: Language,
    gold: Sequence[Doc],
    pipe: str | None = None,
    *,
    confidence: float = 0.95,
    loss: Loss = SPANS,
) -> PromiseTable:
    """Return the promises of VALUES for all labels together, with thresholds and costs.

    Covered promises are of recall alone. All hold at once with this confidence (Bonferroni), so one
    may choose after a look. `control` with `confidence_each` then finds the threshold of the table.
    ValueError as from `control`.
    """
    name, labeler = find_labeler(nlp, pipe)
    split_promise(labeler.labels, None, {}, confidence)
    gold, notes = drop_copies(gold)
    notes += check_unseen(labeler, gold)
    examples = make_examples(nlp, name, gold)
    notes += doubt_source(labeler, examples)
    kinds = ["recall"] if loss.covered else PROMISES
    evidence = {kind: _try_evidence(labeler, examples, kind, loss) for kind in kinds}
    given = {kind: found.units for kind, found in evidence.items() if found is not None}
    if precise := evidence.get("precision"):
        notes += note_left_out(precise.n_left_out, name)
    if not given:
        Evidence(labeler, examples, kinds[0])  # raises ValueError with the reason
    level = (1 - confidence) / (len(VALUES) * len(given))
    candidates = _candidates(labeler, examples) if "recall" in given else np.zeros(0)
    offers = []
    for kind, found in given.items():
        for value in VALUES:
            try:
                kept = fit_threshold(found, kind, Promise(labeler.labels, value, level), loss, name)
            except ValueError as error:
                offers.append(Offer(kind, value, None, math.nan, math.nan, math.nan, str(error)))
                continue
            reached = found.posteriors >= kept.threshold
            spans = found.posteriors if kind == "precision" else candidates
            n_right = (reached & found.correct).sum()
            recall = n_right / len(given["recall"].docs) if "recall" in given else math.nan
            costs = float(recall), float((spans >= kept.threshold).sum() / len(examples))
            offers.append(Offer(kind, value, kept.threshold, kept.measured, *costs))
    return PromiseTable(name, loss, offers, len(examples), confidence, 1 - level, notes)


def _candidates(labeler: Any, examples: Sequence[Example]) -> Floats:
    """Return the posteriors of all spans that a recall promise can have as candidates."""
    least, found = float(GRIDS["recall"][0]), [np.zeros(0)]
    for batch in minibatch(examples, BATCH_SIZE):
        posterior = labeler.posterior(labeler.find_potentials([eg.predicted for eg in batch]))
        found.append(labeler.codec.candidates(posterior, least, labeler.model.ops)[-1])
    return np.concatenate(found).astype("float64")
