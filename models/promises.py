"""Calibrate a pipeline, and find the thresholds of its promises, on held-out documents.

    python -m models.promises calibrate CORPUS TRAINED TRAINED/final OUTPUT
    python -m models.promises control CORPUS TRAINED CALIBRATED OUTPUT

CORPUS, TRAINED: see `models.train`. A pipeline that did not learn it judges each document
(cross-fitting). Of each two documents, the first calibrates, and the promises rest on the second.
`nlp.meta["promises"]` has them by component: values of the setting `control`. `promised_on` has the
numbers of documents with units of the labels, and why a promise is not made.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.analysis.calibrate import Calibration
from spacy_bcrf.analysis.control.evidence import (
    SPANS,
    Evidence,
    Kept,
    Loss,
    Promise,
    fit_threshold,
)
from spacy_bcrf.analysis.control.risk import fewest_documents
from spacy_bcrf.analysis.loading import find_labelers, hash_texts, make_examples
from spacy_bcrf.pipeline.settings import Control

from .train import read_held_out

PROMISES = {
    "precision": ("precision", 0.9, SPANS),
    "recall": ("recall", 0.95, SPANS),
    "covered": ("recall", 0.95, Loss(covered=True)),
}
"""Kind, value and loss of each promise, by its name in the meta data."""
CONFIDENCE = 0.95

HeldOut = Sequence[tuple[Language, list[Doc]]]
"""Pipelines, each with documents that it did not learn."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["calibrate", "control"])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("trained", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args(arguments)
    first, run = {"calibrate": (0, calibrate), "control": (1, control)}[args.step]
    nlp = spacy.load(args.model)
    held_out = read_held_out(args.corpus, args.trained)
    run(nlp, [(fold, docs[first::2]) for fold, docs in held_out])
    nlp.to_disk(args.output)


def calibrate(nlp: Language, held_out: HeldOut) -> None:
    """Set the temperature of each component of ours, which writes confidences from then on."""
    for name, pipe in find_labelers(nlp).items():
        folds: Any = [(fold, fold.get_pipe(name), docs) for fold, docs in held_out]
        found, *others = (
            Calibration(of_fold, make_examples(fold, name, docs), ignore_annotation=False)
            for fold, of_fold, docs in folds
        )
        for other in others:
            found.extend(other)
        # spaCy's files keep fewer digits than a float.
        pipe.temperature = round(found.fit(), 6)
        pipe.annotate = ("confidence",)
        texts = hash_texts([doc for *_, docs in folds for doc in docs])
        pipe.change_setting("calibrated_on", texts)
        print(f"{name}: temperature {pipe.temperature:.3f} of {len(found.correct):,} predictions")


def control(nlp: Language, held_out: HeldOut) -> None:
    """Store the promises of each component of ours, of all labels together and of single labels.

    A covered promise is of all labels together. A promise that no threshold keeps is left out. Each
    of the others holds with CONFIDENCE, and those of single labels together.
    """
    nlp.meta["promises"], nlp.meta["promised_on"] = {}, {}
    for name, pipe in find_labelers(nlp).items():
        promises: dict[str, Any] = {}
        promised_on: dict[str, Any] = {"notes": []}
        texts = hash_texts([doc for _, docs in held_out for doc in docs])
        for promise, (kind, value, loss) in PROMISES.items():
            evidence = find_evidence(name, kind, loss.covered, pipe.temperature, held_out)
            single: list[tuple[str, ...]] = [(label,) for label in pipe.labels]
            groups = {promise: [tuple(pipe.labels)]}
            if not loss.covered:
                groups[f"{promise} by label"] = single
            for title, labels in groups.items():
                level = (1 - CONFIDENCE) / len(labels)
                fewest = fewest_documents(1 - value, level)
                kept, rare = [], []
                for one in labels:
                    units = evidence.of(one)
                    if (n := len(np.unique(units.docs))) < fewest:
                        rare.append(f"{', '.join(one)} ({n})")
                        continue
                    try:
                        kept.append(
                            fit_threshold(units, kind, Promise(one, value, level), loss, name)
                        )
                    except ValueError as error:
                        promised_on["notes"].append(str(error))
                if rare:
                    few = f"{title}: too few of {fewest} documents with {', '.join(rare)}"
                    promised_on["notes"].append(few)
                if kept:
                    promises[title] = asdict(as_control(kind, kept, loss, pipe.temperature, texts))
                    promised_on[title] = {", ".join(x.promise.labels): x.n_docs for x in kept}
        nlp.meta["promises"][name], nlp.meta["promised_on"][name] = promises, promised_on
        print(name, promised_on)


def find_evidence(
    name: str, kind: str, covered: bool, temperature: float, held_out: HeldOut
) -> Evidence:
    """Return the units of all held-out documents at the temperature of the pipeline that ships."""
    found: list[Evidence] = []
    for fold, docs in held_out:
        pipe: Any = fold.get_pipe(name)
        pipe.temperature = temperature
        found.append(Evidence(pipe, make_examples(fold, name, docs), kind, covered))
    first, *others = found
    for other in others:
        first.extend(other)
    return first


def as_control(
    kind: str, kept: Sequence[Kept], loss: Loss, temperature: float, texts: tuple[str, ...]
) -> Control:
    rows = [(label, i, one) for i, one in enumerate(kept) for label in one.promise.labels]
    return Control(
        kind,
        tuple(label for label, *_ in rows),
        tuple(one.threshold for *_, one in rows),
        temperature,
        tuple(one.promise.value for *_, one in rows),
        tuple(i for _, i, _ in rows),
        CONFIDENCE,
        fitted_on=texts,
        **asdict(loss),
    )


if __name__ == "__main__":
    main()
