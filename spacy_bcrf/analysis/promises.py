"""Promises of precision or recall: thresholds on exact posteriors, tested on gold documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import PROMISES, Control, check_promise

from .loading import check_common, check_unseen, find_labeler, make_examples
from .result import Result, make_figure
from .risk_control import (
    MAX_DOCUMENTS,
    Counts,
    Floats,
    Units,
    betting_p_values,
    binomial_interval,
    binomial_p_values,
    count_units,
    estimate_documents,
    excess_losses,
    fewest_documents,
    hoeffding_bentkus_p_values,
    last_certified,
)

# From the safest threshold to the boldest.
GRIDS: dict[str, Floats] = {
    "precision": np.concatenate([1 - np.geomspace(1e-5, 0.01, 20), np.linspace(0.98, 0, 99)]),
    "recall": np.geomspace(1e-4, 1, 121),
}

VALUES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""The promised values of a `PromiseTable`."""

UNITS = ("span", "document")

ASSUMPTION = (
    "The promise holds for new documents from the same source as these, which neither training nor "
    "`calibrate` has seen. `monitor` watches whether new documents are like these"
)


class Loss(NamedTuple):
    """What a promise counts as the loss of a document.

    unit: "span", the share of its units that are wrong; "document", whether any is. max_units: a
    document with n units weighs min(n, max_units), with the unit "span".
    """

    unit: str = "span"
    max_units: int = 1

    def check(self) -> None:
        """Raise ValueError for an unknown unit, or if documents are to have two weights."""
        if self.unit not in UNITS:
            raise ValueError(f"unit must be span or document, got {self.unit!r}")
        if self.unit == "document" and self.max_units != 1:
            raise ValueError(
                f"max_units {self.max_units} contradicts the unit document, where each document "
                "weighs the same"
            )

    def excess(self, counts: Counts, risk: float) -> Floats:
        """Return `risk_control.excess_losses`."""
        counts = counts.by_document() if self.unit == "document" else counts
        return excess_losses(counts, risk, self.max_units)

    def p_values(self, excess: Floats, risk: float, level: float) -> Floats:
        """Return p-values (K,). The kind of loss alone chooses the test, not the data.

        Losses of 0 and 1 have an exact one. Bets are better where documents weigh differently, and
        the Hoeffding-Bentkus bound where they weigh the same.
        """
        if self.unit == "document":
            return binomial_p_values(excess, risk)
        if self.max_units > 1:
            return betting_p_values(excess, risk, level)
        return hoeffding_bentkus_p_values(excess, risk)


SPANS = Loss()
"""The mean over documents of the share of wrong units."""


class Promise(NamedTuple):
    """A promised precision or recall of some labels together.

    level: the probability that the promise is broken.
    """

    labels: tuple[str, ...]
    value: float
    level: float


def describe_promise(kind: str, promise: Promise, unit: str) -> str:
    """Return a promise as text, such as "recall 0.9 a document of PERSON"."""
    per = " a document" if unit == "document" else ""
    return f"{kind} {promise.value:g}{per} of {', '.join(promise.labels)}"


class Kept(NamedTuple):
    """A promise, its threshold and what the gold documents say about it.

    n_docs: documents with units of these labels. measured: their precision or recall.
    share: the share of units that reach the threshold.
    """

    promise: Promise
    threshold: float
    n_docs: int
    measured: float
    share: float


Labels = str | tuple[str, ...]
"""A label, or labels that are promised together."""


def split_promise(
    labels: Sequence[str], value: float | None, of_labels: Mapping[Any, float], confidence: float
) -> list[Promise]:
    """Return the promises: one of each group in `of_labels`, and one of all other labels together.

    of_labels: by `Labels`. Bonferroni: each promise may be broken with probability (1 - confidence)
    / number of promises. ValueError for unknown labels, for a label with two promises, and for
    numbers that are not between 0 and 1.
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


class Evidence:
    """The units of gold documents that a promise is about, with their posteriors.

    precision: predictions with gold annotation. recall: gold spans with a label of the component;
    one that no prediction can match has the posterior 0. The components before it must have
    annotated the predicted documents.

    ValueError if all gold labels are unknown to the component, or if no document has a unit.
    """

    def __init__(self, pipe: Any, examples: Sequence[Example], promise: str) -> None:
        """pipe: a `SequenceLabeler`. promise: one of PROMISES."""
        check_promise(pipe.name, pipe.codec, promise)
        found = set().union(*(pipe.codec.find_labels(eg.reference) for eg in examples))
        check_common(pipe, found)
        self.promise = promise
        self._name = pipe.name
        self._labels = pipe.labels
        read = _read_predictions if promise == "precision" else _read_gold_spans
        found_in: list[tuple[NDArray, ...]] = []
        n_docs = 0
        progress = tqdm(total=len(examples), unit="docs", desc="predicting", delay=1, disable=None)
        with progress:
            for batch in minibatch(examples, BATCH_SIZE):
                of_doc, *columns = read(pipe, batch)
                found_in.append((of_doc + n_docs, *columns))
                n_docs += len(batch)
                progress.update(len(batch))
        docs, labels, posteriors, correct = map(np.concatenate, zip(*found_in, strict=True))
        if not len(docs):
            what = "predictions with gold annotation" if promise == "precision" else "gold spans"
            raise ValueError(f"[{pipe.name}] the {n_docs} gold documents have no {what}")
        self.units = Units(docs, posteriors.astype("float64"), correct.astype(bool), n_docs)
        self.labels: NDArray[np.int64] = labels.astype("int64")
        """The label index (M,) of each unit."""

    def of(self, labels: Sequence[str]) -> Units:
        """Return the units of some labels."""
        ids = [self._labels.index(label) for label in labels]
        return self.units.select(np.isin(self.labels, ids))

    def fit(self, promise: Promise, loss: Loss = SPANS) -> Kept:
        """Return the boldest threshold that keeps a promise, see `fit_threshold`.

        ValueError with the number of documents needed if no threshold does.
        """
        return fit_threshold(self.of(promise.labels), self.promise, promise, loss, self._name)


def fit_threshold(
    units: Units, kind: str, promise: Promise, loss: Loss = SPANS, name: str = "control"
) -> Kept:
    """Return the boldest threshold that keeps a promise with probability 1 - level.

    By default, the risk is the mean over documents with units of the share of wrong units. The
    units are a document's predictions from the threshold on, or its gold spans. A gold span below
    the threshold is wrong. The bound of the risk is 1 - value. The documents must be exchangeable
    with future documents, and unknown to the model.

    kind: "precision" or "recall". ValueError if no threshold of GRIDS keeps the promise.
    """
    thresholds = GRIDS[kind]
    occupied = np.unique(units.docs)
    units = units._replace(docs=np.searchsorted(occupied, units.docs), n_docs=len(occupied))
    risk = 1 - promise.value
    budgets = split_level(kind, promise)
    counts = count_units(kind, units, thresholds)
    excess = loss.excess(counts, risk)
    best = last_certified(loss.p_values(excess, risk, float(budgets.max())), budgets)
    if best is None:
        raise ValueError(_explain_failure(kind, promise, name, excess, budgets, loss))
    measured = 1 - measure_loss(Counts(*(part[:, [best]] for part in counts)), loss)
    threshold = float(thresholds[best])
    share = float((units.posteriors >= threshold).mean())
    return Kept(promise, threshold, units.n_docs, float(measured[0]), share)


def measure_loss(counts: Counts, loss: Loss) -> Floats:
    """Return the weighted mean loss (K,) of the documents, which a promise bounds."""
    totals = counts.by_document().total if loss.unit == "document" else counts.total
    weights = (totals.clip(max=loss.max_units) / loss.max_units).sum(0)
    return loss.excess(counts, 0).sum(0) / weights.clip(min=1e-12)


def split_level(kind: str, promise: Promise) -> Floats:
    """Return the level (K,) that each threshold of the grid starts with.

    Recall falls with the threshold, so all starts at the lowest one. Few predictions reach the
    highest thresholds. So a precision promise has four starts: the promised precision, which is
    safe for calibrated posteriors, a lower one, and two higher ones for a model that is too sure.
    """
    thresholds = GRIDS[kind]
    budgets = np.zeros(len(thresholds))
    if kind == "recall":
        budgets[0] = promise.level
        return budgets
    starts = [max(0, 1 - (1 - promise.value) / part) for part in (1 / 3, 1, 4, 16)]
    for start in starts:
        budgets[np.abs(thresholds - start).argmin()] += promise.level / len(starts)
    return budgets


def _explain_failure(
    kind: str, promise: Promise, name: str, excess: Floats, budgets: Floats, loss: Loss
) -> str:
    n = len(excess)
    risk = 1 - promise.value
    who = f"[{name}] {kind} {promise.value:g} of {', '.join(promise.labels)}"
    fewest = fewest_documents(risk, float(budgets.max()))
    units = "predictions" if kind == "precision" else "gold spans"
    needed = estimate_documents(excess, risk, budgets, loss.max_units > 1)
    if n < fewest:
        more = "" if needed is None else f", and about {max(needed, fewest):,} with as many errors"
        return (
            f"{who}: {n} documents have {units} of these labels, too few for the promise. It needs "
            f"at least {fewest} such documents, even without any error{more}"
        )
    if needed is None:
        return (
            f"{who}: no threshold reaches it on these {n} documents. As far as they tell, it needs "
            f"more than {MAX_DOCUMENTS:,}. Promise less, or train a better model"
        )
    return (
        f"{who}: {n} documents have {units} of these labels, too few for the promise. It needs "
        f"about {max(needed, fewest, n + 1):,} such documents, or promise less"
    )


def _read_predictions(pipe: Any, batch: Sequence[Example]) -> tuple[NDArray, ...]:
    """Return document, label, posterior and correctness of each prediction."""
    potentials, predictions, correct = pipe.compare_with_gold(batch, ignore_annotation=False)
    p = pipe.confidences(pipe.posterior(potentials), predictions)
    ends = doc_lengths([example.predicted for example in batch]).cumsum()
    return ends.searchsorted(predictions[0], side="right"), predictions[-1], p, correct


def _read_gold_spans(pipe: Any, batch: Sequence[Example]) -> tuple[NDArray, ...]:
    """Return document, label, posterior and True of each gold span."""
    docs = [example.predicted for example in batch]
    potentials = pipe.find_potentials(docs)
    label_ids = {label: i for i, label in enumerate(pipe.labels)}
    offsets = np.append(0, doc_lengths(docs).cumsum()).tolist()
    rows = []
    for i, (doc, example) in enumerate(zip(docs, batch, strict=True)):
        for gold in pipe.codec.find_spans(example.reference):
            if gold.label_ in label_ids:
                span = doc.char_span(gold.start_char, gold.end_char)
                at = (span.start, span.end) if span else (0, 0)
                rows.append((i, *(offsets[i] + token for token in at), label_ids[gold.label_]))
    of_doc, starts, ends, labels = np.array(rows, dtype="int64").reshape(-1, 4).T
    exists = ends > starts
    p = np.zeros(len(rows))
    given = tuple(part[exists].astype("int32") for part in (starts, ends, labels))
    p[exists] = pipe.confidences(pipe.posterior(potentials), given)
    return of_doc, labels, p, np.ones(len(rows), dtype=bool)


@dataclass(repr=False)
class Controlled(Result):
    """A component with a promise.

    name: of the component. kind: "precision" or "recall". kept: the promises and their thresholds.
    n_docs: number of gold documents. n_candidates: number of candidate spans in them. notes: doubts
    about the gold documents.
    """

    name: str
    kind: str
    kept: list[Kept]
    n_docs: int
    n_candidates: int
    unit: str = "span"
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        promised = "; ".join(
            f"{describe_promise(self.kind, one.promise, self.unit)} at threshold "
            f"{one.threshold:.4g}"
            for one in self.kept
        )
        return f"Controlled({self.name}: {promised})"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table, with a header."""
        rows = [
            (
                ", ".join(one.promise.labels),
                f"{one.promise.value:g}",
                f"{one.threshold:.4g}",
                f"{one.measured:.4f}",
                f"{one.share:.3f}",
            )
            for one in self.kept
        ]
        return [("labels", "promised", "threshold", "measured", "kept share"), *rows]

    def plot(self) -> Any:
        """Return a Matplotlib figure: promised and measured values of each promise."""
        figure = make_figure()
        axes = figure.subplots()
        names = [", ".join(one.promise.labels) for one in self.kept]
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
    unit: str = "span",
    max_units: int = 1,
) -> Controlled:
    """Find posterior thresholds that keep a promise on new documents, and set them.

    The promise holds for documents from the same source as `gold`, which neither training nor
    `calibrate` has seen. The config of the component has the thresholds too.

    recall, precision: the promised value, one of them. of_labels: promises of single labels, or of
    tuples of labels. confidence: the probability that all promises are kept. unit: "span", the mean
    over documents of their recall or precision; "document", the share of the documents with gold
    spans of which none is missed, or of the documents with predictions of which none is wrong.
    max_units: see `Loss`. ValueError as from `check_unseen`, `split_promise`, `Loss.check`,
    `Evidence` and `fit_threshold`.
    """
    if (recall is None) == (precision is None):
        raise ValueError("expected either recall or precision, such as precision 0.95")
    loss = Loss(unit, max_units)
    loss.check()
    name, labeler = find_labeler(nlp, pipe)
    kind, value = ("precision", precision) if recall is None else ("recall", recall)
    promises = split_promise(labeler.labels, value, of_labels or {}, confidence)
    notes = check_unseen(labeler, gold)
    examples = make_examples(nlp, name, gold)
    evidence = Evidence(labeler, examples, kind)
    notes += doubt_source(labeler, examples)
    kept = [evidence.fit(promise, loss) for promise in promises]
    found = [(label, i, one) for i, one in enumerate(kept) for label in one.promise.labels]
    labeler.control = Control(
        kind,
        tuple(label for label, *_ in found),
        tuple(one.threshold for *_, one in found),
        labeler.temperature,
        tuple(one.promise.value for *_, one in found),
        tuple(i for _, i, _ in found),
        confidence,
        *loss,
    )
    nlp.get_pipe_config(name)["control"] = labeler.settings["control"]
    n_candidates = sum(
        len(prediction.candidates or ())
        for batch in minibatch(examples, nlp.batch_size)
        for prediction in labeler.predict([example.predicted for example in batch])
    )
    return Controlled(name, kind, kept, len(examples), n_candidates, unit, notes)


def measure_promises(labeler: Any, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Return the promises of a component and what gold documents reach, as JSON values.

    `low` and `high` bound the reached value with confidence 95%: percentiles of 1,000 bootstrap
    samples of the documents, or exact for promises a document. All are None without a unit.
    """
    promise = labeler.control
    if promise is None or not promise.values:
        return []
    loss, evidence = Loss(promise.unit, promise.max_units), None
    with suppress(ValueError):  # no document has a unit
        evidence = Evidence(labeler, examples, promise.promise)
    found = []
    for group in sorted(set(promise.groups)):
        at = [i for i, of_label in enumerate(promise.groups) if of_label == group]
        labels = [promise.labels[i] for i in at]
        row = {"kind": promise.promise, "labels": labels, "promised": promise.values[at[0]]}
        row |= {"unit": loss.unit, "documents": 0, "reached": None, "low": None, "high": None}
        units = None if evidence is None else evidence.of(labels)
        if units is not None and len(units.docs):
            thresholds = np.array([promise.thresholds[at[0]]], dtype="float64")
            counts = count_units(promise.promise, units, thresholds)
            used = Counts(*(part[counts.total[:, 0] > 0] for part in counts))
            row |= _reached(used, loss)
        found.append(row)
    return found


def _reached(counts: Counts, loss: Loss) -> dict[str, Any]:
    n = len(counts.total)
    if not n:
        return {}
    reached = 1 - float(measure_loss(counts, loss)[0])
    if loss.unit == "document":
        bounds = binomial_interval(round(n * (1 - reached)), n)
    else:
        drawn = np.random.default_rng(0).integers(0, n, (1000, n))
        samples = [measure_loss(Counts(*(part[i] for part in counts)), loss)[0] for i in drawn]
        low, high = np.percentile(samples, (2.5, 97.5)).tolist()
        bounds = low, high
    return {"documents": n, "reached": reached, "low": 1 - bounds[1], "high": 1 - bounds[0]}


def doubt_source(labeler: Any, examples: Sequence[Example]) -> list[str]:
    """Return a note if calibrated probabilities are wrong on documents: another source, perhaps."""
    if not labeler.calibrated_on:
        return []
    units = _try_evidence(labeler, examples, "precision")
    if units is None:
        return []
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


def _try_evidence(labeler: Any, examples: Sequence[Example], kind: str) -> Units | None:
    """Return the units of a promise; None without any, or if the annotation cannot promise it."""
    try:
        return Evidence(labeler, examples, kind).units
    except ValueError:
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
    """The promises that a component can make, all at once, and their costs.

    confidence: that all of them are kept. confidence_each: of one alone, for `control`.
    """

    name: str
    offers: list[Offer]
    n_docs: int
    confidence: float
    confidence_each: float
    unit: str
    max_units: int
    notes: list[str]

    def __repr__(self) -> str:
        best = {
            kind: max(o.value for o in self.offers if o.kind == kind and o.threshold is not None)
            for kind in dict.fromkeys(o.kind for o in self.offers if o.threshold is not None)
        }
        found = ", ".join(f"{kind} up to {value:g}" for kind, value in best.items())
        return f"PromiseTable({self.name}: {found or 'none'})"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table, with a header."""
        header = ("promise", "threshold", "measured", "recall", "spans a document")
        cells = [
            (f"{o.kind} {o.value:g}", "none", "", "", "")
            if o.threshold is None
            else (
                f"{o.kind} {o.value:g}",
                f"{o.threshold:.4g}",
                f"{o.measured:.4f}",
                "" if math.isnan(o.recall) else f"{o.recall:.4f}",
                f"{o.spans:.2f}",
            )
            for o in self.offers
        ]
        return [header, *cells]

    def plot(self) -> Any:
        """Return a Matplotlib figure: recall by promised precision, spans by promised recall."""
        figure = make_figure(9, 4)
        costs = {"precision": ("recall", "recall"), "recall": ("spans", "candidates a document")}
        for axes, kind in zip(figure.subplots(1, 2), PROMISES, strict=True):
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
    unit: str = "span",
    max_units: int = 1,
) -> PromiseTable:
    """Return the promises of VALUES for all labels together, with thresholds and costs.

    All hold at once with this confidence (Bonferroni), so one may choose after a look. `control`
    with `confidence_each` then finds the threshold of the table. ValueError as from `control`.
    """
    loss = Loss(unit, max_units)
    loss.check()
    name, labeler = find_labeler(nlp, pipe)
    split_promise(labeler.labels, None, {}, confidence)
    notes = check_unseen(labeler, gold)
    examples = make_examples(nlp, name, gold)
    notes += doubt_source(labeler, examples)
    units = {kind: _try_evidence(labeler, examples, kind) for kind in PROMISES}
    given = {kind: found for kind, found in units.items() if found is not None}
    if not given:
        Evidence(labeler, examples, "precision")  # raises ValueError with the reason
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
            gold_spans = given.get("recall")
            n_right = (reached & found.correct).sum()
            recall = n_right / len(gold_spans.docs) if gold_spans is not None else math.nan
            n_spans = (spans >= kept.threshold).sum() / len(examples)
            offers.append(
                Offer(kind, value, kept.threshold, kept.measured, float(recall), float(n_spans))
            )
    each = 1 - level
    return PromiseTable(name, offers, len(examples), confidence, each, unit, max_units, notes)


def _candidates(labeler: Any, examples: Sequence[Example]) -> Floats:
    """Return the posteriors of all spans that a recall promise can have as candidates."""
    least, found = float(GRIDS["recall"][0]), [np.zeros(0)]
    for batch in minibatch(examples, BATCH_SIZE):
        posterior = labeler.posterior(labeler.find_potentials([eg.predicted for eg in batch]))
        found.append(labeler.codec.candidates(posterior, least, labeler.model.ops)[-1])
    return np.concatenate(found).astype("float64")
