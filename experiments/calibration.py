"""Expected calibration error after calibration on held-out sentences.

    python -m experiments.calibration --corpora DIR

Trains a sparse chain on the training part of each corpus. Each split fits the temperature and the
maps of confidences on a random half of the dev sentences, and measures the other half. "test" fits
on all of dev and measures the test part. Posteriors are computed once for each temperature.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from spacy.training import Example

from experiments.labeling_tasks import TASKS, add_options
from experiments.report import markdown_table, mean_and_deviation
from experiments.template_ablation import MODEL
from spacy_bcrf.analysis.calibration import Calibration, measure_reliability
from spacy_bcrf.analysis.cross_fitting import fit_sparse_chain
from spacy_bcrf.pipeline.platt_scaling import GROUPINGS

CORPORA = ("wnut17", "jnlpba")
METHODS = ("none", "temperature", *GROUPINGS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=CORPORA)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--limit", type=int, help="training sentences")
    args = parser.parse_args()
    rows: list[Sequence[object]] = [("corpus", "measured on", "predictions", *METHODS)]
    for corpus in args.only:
        rows += measure_corpus(corpus, args)
    print(markdown_table(rows), end="")


def measure_corpus(corpus: str, args: argparse.Namespace) -> list[Sequence[object]]:
    """Train a chain. Return the rows of a corpus: other halves of dev, and test."""
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
        n, of_split = measure(pipe, fitted, measured)
        errors.append(of_split)
        numbers.append(n)
        print(f"{corpus}, split {seed}: {of_split}", flush=True)
    n, on_test = measure(pipe, of_dev, of_test)
    halves = [mean_and_deviation(column, 3) for column in zip(*errors, strict=True)]
    return [
        (corpus, "dev, other half", f"{np.mean(numbers):.0f}", *halves),
        (corpus, "test", n, *(f"{error:.3f}" for error in on_test)),
    ]


def measure(
    pipe: Any, fitted: Sequence[Example], measured: Sequence[Example]
) -> tuple[int, list[float]]:
    """Return the number of predictions, and the calibration error after each of METHODS."""
    calibration, other = Calibration(pipe, fitted), Calibration(pipe, measured)
    temperature = calibration.fit()
    maps = [calibration.fit_scaling(temperature, by) for by in GROUPINGS]
    confidences = [other.confidence(1.0), other.confidence(temperature)]
    confidences += [other.confidence(temperature, scaling) for scaling in maps]
    errors = [measure_reliability(p, other.correct).error for p in confidences]
    return len(other.correct), [round(error, 4) for error in errors]


if __name__ == "__main__":
    main()
