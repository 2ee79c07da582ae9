"""Promises of precision or recall: thresholds on exact posteriors, tested on gold documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.annotation.html_table import html_table
from spacy_bcrf.io.extras import require
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import Control, check_promise

from .loading import check_common, find_labeler, make_examples
from .risk_control import (
    Counts,
    Floats,
    Units,
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


class Promise(NamedTuple):
    """A promised precision or recall of some labels together.

    level: the probability that the promise is broken.
    """

    labels: tuple[str, ...]
    value: float
    level: float


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


def split_promise(
    labels: Sequence[str], value: float | None, of_labels: Mapping[str, float], confidence: float
) -> list[Promise]:
    """Return the promises: one of each label in `of_labels`, and one of all other labels together.

    Bonferroni: each promise may be broken with probability (1 - confidence) / number of promises.
    ValueError for unknown labels and for numbers that are not between 0 and 1.
    """
    named = {"confidence": confidence, **of_labels}
    if value is not None:
        named["the promise"] = value
    for name, number in named.items():
        if not 0 < number < 1:
            raise ValueError(f"{name} must be between 0 and 1, both excluded, got {number}")
    if unknown := [label for label in of_labels if label not in labels]:
        raise ValueError(
            f"unknown labels {', '.join(unknown)}; the component has {', '.join(labels)}"
        )
    groups: list[tuple[tuple[str, ...], float]] = [
        ((label,), number) for label, number in of_labels.items()
    ]
    others = tuple(label for label in labels if label not in of_labels)
    if value is not None and others:
        groups.append((others, value))
    return [Promise(*group, (1 - confidence) / len(groups)) for group in groups]


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

    def fit(self, promise: Promise, max_units: int = 1) -> Kept:
        """Return the boldest threshold that keeps a promise, see `fit_threshold`.

        ValueError with the number of documents needed if no threshold does.
        """
        ids = [self._labels.index(label) for label in promise.labels]
        units = self.units.select(np.isin(self.labels, ids))
        return fit_threshold(units, self.promise, promise, max_units, self._name)


def fit_threshold(
    units: Units, kind: str, promise: Promise, max_units: int = 1, name: str = "control"
) -> Kept:
    """Return the boldest threshold that keeps a promise with probability 1 - level.

    With max_units = 1, the risk is the mean over documents with units of the share of wrong units.
    The units are a document's predictions from the threshold on, or its gold spans. A gold span
    below the threshold is wrong. The bound of the risk is 1 - value. A larger max_units gives a
    document with n units the weight min(n, max_units); see `risk_control.excess_losses`. The
    documents must be exchangeable with future documents, and unknown to the model.

    kind: "precision" or "recall". ValueError if no threshold of GRIDS keeps the promise.
    """
    thresholds = GRIDS[kind]
    occupied = np.unique(units.docs)
    units = units._replace(docs=np.searchsorted(occupied, units.docs), n_docs=len(occupied))
    risk = 1 - promise.value
    budgets = _split_level(kind, promise)
    counts = count_units(kind, units, thresholds)
    excess = excess_losses(counts, risk, max_units)
    best = last_certified(hoeffding_bentkus_p_values(excess, risk), budgets)
    if best is None:
        raise ValueError(_explain_failure(kind, promise, name, excess, float(budgets.max())))
    at_best = Counts(*(part[:, best] for part in counts))
    measured = 1 - at_best.wrong.sum() / max(1, at_best.total.sum())
    threshold = float(thresholds[best])
    share = float((units.posteriors >= threshold).mean())
    return Kept(promise, threshold, units.n_docs, float(measured), share)


def _split_level(kind: str, promise: Promise) -> Floats:
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


def _explain_failure(kind: str, promise: Promise, name: str, excess: Floats, level: float) -> str:
    n = len(excess)
    who = f"[{name}] {kind} {promise.value:g} of {', '.join(promise.labels)}"
    fewest = fewest_documents(1 - promise.value, level)
    units = "predictions" if kind == "precision" else "gold spans"
    if n < fewest:
        return (
            f"{who}: {n} documents have {units} of these labels, too few for the promise. It needs "
            f"at least {fewest} such documents, even without any error"
        )
    needed = estimate_documents(excess, 1 - promise.value, level)
    if needed is None:
        return (
            f"{who}: no threshold reaches it on these {n} documents, and more documents do not "
            "help. Promise less, or train a better model"
        )
    return (
        f"{who}: {n} documents have {units} of these labels, too few for the promise. It needs "
        f"about {max(needed, fewest, n + 1)} such documents, or promise less"
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


@dataclass
class Controlled:
    """A component with a promise.

    name: of the component. kind: "precision" or "recall". kept: the promises and their thresholds.
    n_docs: number of gold documents. n_candidates: number of candidate spans in them.
    """

    name: str
    kind: str
    kept: list[Kept]
    n_docs: int
    n_candidates: int

    def __repr__(self) -> str:
        promised = "; ".join(
            f"{self.kind} {one.promise.value:g} of {', '.join(one.promise.labels)} at threshold "
            f"{one.threshold:.4g}"
            for one in self.kept
        )
        return f"Controlled({self.name}: {promised})"

    def to_json(self) -> dict[str, Any]:
        """Return all values as JSON values."""
        kept = [{**one._asdict(), "promise": one.promise._asdict()} for one in self.kept]
        return {**vars(self), "kept": kept}

    def _repr_html_(self) -> str:
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
        return html_table(("labels", "promised", "threshold", "measured", "kept share"), rows)

    def plot(self) -> Any:
        """Return a Matplotlib figure: promised and measured values of each promise."""
        figure = require("matplotlib.figure", "plot").Figure(layout="constrained")
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
    of_labels: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    max_units: int = 1,
) -> Controlled:
    """Find posterior thresholds that keep a promise on new documents, and set them.

    The promise holds for documents from the same source as `gold`, which neither training nor
    `calibrate` has seen. The config of the component has the thresholds too.

    recall, precision: the promised value, one of them. of_labels: promises of single labels.
    confidence: the probability that all promises are kept. max_units: see `fit_threshold`.
    ValueError as from `split_promise`, `Evidence` and `fit_threshold`.
    """
    if (recall is None) == (precision is None):
        raise ValueError("expected either recall or precision, such as precision 0.95")
    name, labeler = find_labeler(nlp, pipe)
    kind, value = ("precision", precision) if recall is None else ("recall", recall)
    promises = split_promise(labeler.labels, value, of_labels or {}, confidence)
    examples = make_examples(nlp, name, gold)
    evidence = Evidence(labeler, examples, kind)
    kept = [evidence.fit(promise, max_units) for promise in promises]
    thresholds = {label: one.threshold for one in kept for label in one.promise.labels}
    labeler.control = Control(
        kind, tuple(thresholds), tuple(thresholds.values()), labeler.temperature
    )
    nlp.get_pipe_config(name)["control"] = labeler.settings["control"]
    n_candidates = sum(
        len(prediction.candidates or ())
        for batch in minibatch(examples, nlp.batch_size)
        for prediction in labeler.predict([example.predicted for example in batch])
    )
    return Controlled(name, kind, kept, len(examples), n_candidates)
