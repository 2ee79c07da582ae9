"""The units of gold documents that a promise is about, and the threshold that keeps a promise."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.training import Example
from spacy.util import minibatch
from tqdm import tqdm

from bcrf.chain.potentials import counted
from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.annotation.folding import is_sign
from spacy_bcrf.loading import check_common
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import check_promise

from . import risk as bounds

# From the safest threshold to the boldest.
GRIDS: dict[str, bounds.Floats] = {
    "precision": np.concatenate([1 - np.geomspace(1e-5, 0.01, 20), np.linspace(0.98, 0, 99)]),
    "recall": np.geomspace(1e-4, 1, 121),
}
UNITS = ("span", "document")
MOST_NAMED = 5
"""Largest number of labels that a line or a cell of a table names."""


@dataclass(frozen=True)
class Loss:
    """What a promise counts as the loss of a document.

    unit: "span", the share of its units that are wrong; "document", whether any is. max_units: a
    document with n units weighs min(n, max_units), with the unit "span". covered: a gold span of
    any label is found if candidates of any labels cover its words, as for redaction; else only if
    it is one. ValueError for an unknown unit, or if documents are to have two weights.
    """

    unit: str = "span"
    max_units: int = 1
    covered: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit must be span or document, got {self.unit!r}")
        if self.unit == "document" and self.max_units != 1:
            raise ValueError(
                f"max_units {self.max_units} contradicts the unit document, where each document "
                "weighs the same"
            )

    def check(self, kind: str, of_labels: Any = None) -> None:
        """Raise ValueError if promises of a kind, or of single labels, cannot be covered."""
        if self.covered and kind != "recall":
            raise ValueError(f"covered is for promises of recall, got one of {kind}")
        if self.covered and of_labels:
            raise ValueError("covered promises all labels together, no label by itself")

    def excess(self, counts: bounds.UnitCounts, risk: float) -> bounds.Floats:
        counts = counts.by_document() if self.unit == "document" else counts
        return bounds.excess_losses(counts, risk, self.max_units)

    def mean(self, counts: bounds.UnitCounts) -> bounds.Floats:
        """Return the weighted mean loss (K,) of the documents, which a promise bounds."""
        totals = counts.by_document().total if self.unit == "document" else counts.total
        weights = (totals.clip(max=self.max_units) / self.max_units).sum(0)
        return self.excess(counts, 0).sum(0) / weights.clip(min=1e-12)

    def p_values(self, excess: bounds.Floats, risk: float, level: float) -> bounds.Floats:
        """Return p-values (K,). The kind of loss alone chooses the test, not the data.

        Losses of 0 and 1 have an exact one. Bets are better where documents weigh differently.
        """
        if self.unit == "document":
            return bounds.binomial_p_values(excess, risk)
        if self.max_units > 1:
            return bounds.betting_p_values(excess, risk, level)
        return bounds.hoeffding_bentkus_p_values(excess, risk)


SPANS = Loss()
"""The mean over documents of the share of wrong units."""


class Promise(NamedTuple):
    """A promised precision or recall of labels together. level: probability that it is broken."""

    labels: tuple[str, ...]
    value: float
    level: float


def name_labels(labels: Sequence[str]) -> str:
    """Return labels as text that fits a line: their names, or their number above MOST_NAMED."""
    return ", ".join(labels) if len(labels) <= MOST_NAMED else counted(len(labels), "label")


def show_promise(kind: str, value: float, loss: Loss, labels: Sequence[str] = ()) -> str:
    """Return a promise as text, such as "recall 0.9 a document of PERSON"."""
    shown = f"{kind} {value:g}" + " (covered)" * (loss.covered and kind == "recall")
    shown += " a document" * (loss.unit == "document")
    return shown + (f" of {name_labels(labels)}" if labels else "")


class Kept(NamedTuple):
    """A promise, its threshold, and what the n_docs gold documents with such units reach.

    share: the share of units that reach the threshold.
    """

    promise: Promise
    threshold: float
    n_docs: int
    measured: float
    share: float


class Evidence:
    """The units of gold documents that a promise is about, with their posteriors.

    precision: predictions that gold can judge. recall: gold spans with a label of the component;
    one that no prediction can match has the posterior 0. covered: see `Loss`; the posterior of a
    gold span is then the highest threshold whose candidates cover it. The components before it have
    annotated the documents. ValueError if it knows no gold label, or without a unit.
    """

    def __init__(
        self, pipe: Any, examples: Sequence[Example], promise: str, covered: bool = False
    ) -> None:
        """pipe: a `SequenceLabeler`. promise: one of PROMISES."""
        check_promise(pipe.name, pipe.codec, promise)
        check_common(pipe, examples)
        self._labels = pipe.labels
        self.n_left_out = 0
        """The number of predictions that gold cannot judge."""
        read_gold_spans = partial(_read_gold_spans, covered=covered)
        read = self._read_predictions if promise == "precision" else read_gold_spans
        found_in: list[tuple[NDArray, ...]] = []
        shown = tqdm(examples, "predicting", unit="docs", delay=1, disable=None)
        for i, batch in enumerate(minibatch(shown, BATCH_SIZE)):
            of_doc, *columns = read(pipe, batch)
            found_in.append((of_doc + i * BATCH_SIZE, *columns))
        docs, labels, posteriors, correct = map(np.concatenate, zip(*found_in, strict=True))
        n = len(examples)
        if not len(docs):
            what = "predictions with gold annotation" if promise == "precision" else "gold spans"
            raise ValueError(f"[{pipe.name}] the {n} gold documents have no {what}")
        self.units = bounds.Units(docs, posteriors.astype("float64"), correct.astype(bool), n)
        self.labels: NDArray[np.int64] = labels.astype("int64")
        """The label index (M,) of each unit."""

    def extend(self, other: "Evidence") -> None:
        """Add the units of other documents, of a component with the same labels (cross-fitting)."""
        one, two = self.units, other.units
        moved = two._replace(docs=two.docs + one.n_docs)
        docs, p, correct = (np.concatenate(both) for both in zip(one[:3], moved[:3], strict=True))
        self.units = bounds.Units(docs, p, correct, one.n_docs + two.n_docs)
        self.labels = np.concatenate([self.labels, other.labels])

    def of(self, labels: Sequence[str]) -> bounds.Units:
        ids = [self._labels.index(label) for label in labels]
        return self.units.select(np.isin(self.labels, ids))

    def _read_predictions(self, pipe: Any, batch: Sequence[Example]) -> tuple[NDArray, ...]:
        """Return document, label, posterior and correctness of each prediction."""
        found = pipe.compare_with_gold(batch, ignore_annotation=False)
        potentials, predictions, correct, n_left_out = found
        self.n_left_out += n_left_out
        p = pipe.confidences(pipe.posterior(potentials), predictions)
        ends = doc_lengths([example.predicted for example in batch]).cumsum()
        return ends.searchsorted(predictions[0], side="right"), predictions[-1], p, correct


def fit_threshold(
    units: bounds.Units, kind: str, promise: Promise, loss: Loss = SPANS, name: str = "control"
) -> Kept:
    """Return the boldest threshold that keeps a promise with probability 1 - level.

    The units are a document's predictions from the threshold on, or its gold spans; one below it is
    wrong. The bound of the risk, see `Loss`, is 1 - value. The documents must be exchangeable with
    future documents, and unknown to the model. kind: "precision" or "recall". ValueError if no
    threshold of GRIDS keeps the promise.
    """
    thresholds = GRIDS[kind]
    occupied = np.unique(units.docs)
    units = units._replace(docs=np.searchsorted(occupied, units.docs), n_docs=len(occupied))
    risk = 1 - promise.value
    budgets = split_level(kind, promise)
    counts = bounds.count_units(kind, units, thresholds)
    excess = loss.excess(counts, risk)
    best = bounds.last_certified(loss.p_values(excess, risk, float(budgets.max())), budgets)
    if best is None:
        reason = _explain_failure(kind, promise, name, excess, budgets, loss)
        if 1 < loss.max_units > (most := int(counts.total.max())):
            reason += f". No document has more than {most}: `max_units={most}` needs fewer of them"
        raise ValueError(reason)
    measured = 1 - loss.mean(bounds.UnitCounts(*(part[:, [best]] for part in counts)))
    threshold = float(thresholds[best])
    share = float((units.posteriors >= threshold).mean())
    return Kept(promise, threshold, units.n_docs, float(measured[0]), share)


def split_level(kind: str, promise: Promise) -> bounds.Floats:
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
    kind: str,
    promise: Promise,
    name: str,
    excess: bounds.Floats,
    budgets: bounds.Floats,
    loss: Loss,
) -> str:
    n, risk = len(excess), 1 - promise.value
    who = f"[{name}] {show_promise(kind, promise.value, loss, promise.labels)}"
    fewest = bounds.fewest_documents(risk, float(budgets.max()))
    needed = bounds.estimate_documents(excess, risk, budgets, loss.max_units > 1)
    if needed is None and n >= fewest:
        return (
            f"{who}: no threshold reaches it on these {n} documents. As far as they tell, it needs "
            f"more than {bounds.MAX_DOCUMENTS:,}. Promise less, or train a better model"
        )
    units = "predictions" if kind == "precision" else "gold spans"
    more = "" if needed is None else f", and about {max(needed, fewest):,} with as many errors"
    need = f"at least {fewest} such documents, even without any error{more}"
    if needed is not None and n >= fewest:
        need = f"about {max(needed, fewest, n + 1):,} such documents, or promise less"
    have = "1 document has" if n == 1 else f"{n:,} documents have"
    few = f"{have} {units} of these labels, too few for the promise"
    return f"{who}: {few}. It needs {need}"


def _read_gold_spans(pipe: Any, batch: Sequence[Example], covered: bool) -> tuple[NDArray, ...]:
    """Return document, label, posterior and True of each gold span."""
    docs = [example.predicted for example in batch]
    posterior = pipe.posterior(pipe.find_potentials(docs))
    label_ids = {label: i for i, label in enumerate(pipe.labels)}
    offsets = np.append(0, doc_lengths(docs).cumsum()).tolist()
    mode = "expand" if covered else "strict"
    rows = []
    for i, (doc, example) in enumerate(zip(docs, batch, strict=True)):
        spans = pipe.codec.find_spans(example.reference)
        gold = [(span.start_char, span.end_char, span.label_) for span in spans]
        for start, end, label in (*gold, *pipe.codec.find_misaligned(example.reference)):
            if covered or label in label_ids:
                found = doc.char_span(start, end, alignment_mode=mode)
                at = (found.start, found.end) if found else (0, 0)
                rows.append((i, *(offsets[i] + token for token in at), label_ids.get(label, 0)))
    of_doc, starts, ends, labels = np.array(rows, dtype="int64").reshape(-1, 4).T
    exists = ends > starts
    # A covered span without a token is of blanks.
    p = np.full(len(rows), float(covered))
    if covered:
        # As in `redact.Leak`, blanks and punctuation need no cover.
        best = np.array([not any(map(is_sign, t.text)) for doc in docs for t in doc], dtype=float)
        candidates = pipe.codec.candidates(posterior, float(GRIDS["recall"][0]), pipe.model.ops)
        for start, end, _, of_candidate in zip(*candidates, strict=True):
            np.maximum(best[start:end], of_candidate, out=best[start:end])
        for offset, doc in zip(offsets, docs, strict=False):
            for ent in doc.ents:  # of earlier components, which redaction replaces too
                best[offset + ent.start : offset + ent.end] = 1
        p[exists] = [best[i:j].min() for i, j in zip(starts[exists], ends[exists], strict=True)]
    else:
        given = tuple(part[exists].astype("int32") for part in (starts, ends, labels))
        p[exists] = pipe.confidences(posterior, given)
    return of_doc, labels, p, np.ones(len(rows), dtype=bool)
