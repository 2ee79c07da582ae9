"""Calibration of a trained component on gold documents, and what it changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_bcrf.layers.decoding import F
from spacy_bcrf.loading import check_common, find_labeler, make_examples
from spacy_bcrf.pipeline.calibration import Calibration, Reliability, measure_reliability
from spacy_bcrf.pipeline.held_out import hash_texts
from spacy_bcrf.pipeline.platt_scaling import PlattScaling
from spacy_bcrf.pipeline.settings import check_grouping
from spacy_bcrf.result import Result, as_json, make_axes, plot_reliability

from .seen import drop_copies


@dataclass(repr=False)
class Calibrated(Result):
    """A calibrated component.

    name: the component. temperature, scaling: the new settings. before: the temperature before,
    such as that of training. n, n_left_out: numbers of predictions that gold can and cannot judge.
    accuracy: the share of correct ones. tables: reliability before and after, by title. unknown:
    gold labels that the component does not have. notes: doubts about the documents.
    """

    name: str
    before: float
    temperature: float
    scaling: PlattScaling | None
    n: int
    n_left_out: int
    accuracy: float
    tables: dict[str, Reliability]
    unknown: list[str]
    notes: list[str] = field(default_factory=list)

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

    From then on the component annotates confidences. With the decoder for F, its threshold is
    fitted too. gold: documents outside of the training data; those with equal texts count once.
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
    gold, notes = drop_copies(gold)
    examples = make_examples(nlp, name, gold)
    unknown = sorted(check_common(labeler, examples) - {*labeler.labels})
    shown = tqdm(examples, "predicting", unit="docs", delay=1, disable=None)
    calibration = Calibration(labeler, shown, ignore_annotation=False)
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
    before = labeler.temperature
    labeler.annotate = (*dict.fromkeys([*labeler.annotate, "confidence"]),)
    labeler.temperature, labeler.calibration = temperature, scaling
    if labeler.labeling.decoder == F:
        labeler.threshold = calibration.fit_threshold(temperature)
        notes.append(f"the threshold of the decoder for F is {labeler.threshold}")
    labeler.calibrated_on = hash_texts(gold)
    accuracy = float(calibration.correct.mean())
    counts = len(calibration.correct), calibration.n_left_out
    return Calibrated(name, before, temperature, scaling, *counts, accuracy, tables, unknown, notes)
