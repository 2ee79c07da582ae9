"""Expected calibration error after calibration on held-out sentences.

    python -m experiments.calibration --corpora DIR

Trains a sparse chain on the training part of each corpus. Each split fits the temperature and the
maps of confidences on a random half of the dev sentences, and measures the other half. "test" fits
on all of dev and measures the test part, also by bins of confidence. Posteriors are computed once
for each temperature.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from spacy.training import Example

from experiments.template_ablation import MODEL
from lab.labeling_tasks import TASKS, add_options
from lab.tables import Row, mean_and_deviation, print_table
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.pipeline.calibration import Calibration, Reliability, measure_reliability
from spacy_bcrf.pipeline.platt_scaling import GROUPINGS

CORPORA = ("wnut17", "jnlpba")
METHODS = ("not calibrated", "temperature", *(f"by {by}" for by in GROUPINGS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=CORPORA)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--limit", type=int, help="training sentences")
    args = parser.parse_args()
    rows: list[Row] = []
    bins: list[Row] = []
    for corpus in args.only:
        of_corpus, on_test = measure_corpus(corpus, args)
        rows += of_corpus
        bins += [
            {"corpus": corpus, "method": method, "confidence": f"{p:.3f}", "right": f"{right:.3f}"}
            | {"predictions": n}
            for method, found in zip(METHODS, on_test, strict=True)
            for p, right, n in zip(*found, strict=True)
            if n
        ]
    print_table("Calibration", rows, "expected calibration error")
    print_table("Reliability", bins, "mean confidence and share of right predictions on test")


def measure_corpus(
    corpus: str, args: argparse.Namespace
) -> tuple[list[Row], Sequence[Reliability]]:
    """Train a chain. Return the rows of a corpus, and the reliability on test."""
    task = TASKS[corpus]
    vocab = task.make_nlp(None).vocab
    train, dev, test = (
        task.read(Path(args.corpora), part, args.cache, vocab) for part in ("train", "dev", "test")
    )
    nlp = task.make_nlp({**MODEL, "templates": task.templates}, vocab)
    fit_sparse_chain(nlp, task.examples(nlp, train[: args.limit]), args.passes)
    ((_, pipe),) = nlp.pipeline
    of_dev, of_test = task.examples(nlp, dev), task.examples(nlp, test)
    errors, numbers = [], []
    for seed in range(args.splits):
        order = np.random.default_rng(seed).permutation(len(of_dev)).tolist()
        half = len(order) // 2
        fitted, measured = ([of_dev[i] for i in part] for part in (order[:half], order[half:]))
        of_split = measure(pipe, fitted, measured)
        errors.append([found.error for found in of_split])
        numbers.append(of_split[0].counts.sum())
    on_test = measure(pipe, of_dev, of_test)
    halves = [mean_and_deviation(column, 3) for column in zip(*errors, strict=True)]
    of_test_part = [f"{found.error:.3f}" for found in on_test]
    return [
        {"corpus": corpus, "measured on": where, "predictions": f"{n:,.0f}"}
        | dict(zip(METHODS, cells, strict=True))
        for where, n, cells in (
            ("dev, other half", np.mean(numbers), halves),
            ("test", on_test[0].counts.sum(), of_test_part),
        )
    ], on_test


def measure(pipe: Any, fitted: Sequence[Example], measured: Sequence[Example]) -> list[Reliability]:
    """Return the reliability after each of METHODS."""
    calibration, other = Calibration(pipe, fitted), Calibration(pipe, measured)
    temperature = calibration.fit()
    maps = [calibration.fit_scaling(temperature, by) for by in GROUPINGS]
    confidences = [other.confidence(1.0), other.confidence(temperature)]
    confidences += [other.confidence(temperature, scaling) for scaling in maps]
    return [measure_reliability(p, other.correct) for p in confidences]


if __name__ == "__main__":
    main()
