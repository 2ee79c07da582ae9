"""How often promised precision and recall are kept, and what they cost.

    python -m experiments.control --corpora DIR

Trains a sparse chain a corpus. Each split fits a threshold on a random half of the dev sentences,
and measures it on the other half. Posteriors are computed once, so a split takes milliseconds.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.template_ablation import MODEL
from lab.labeling_tasks import TASKS, add_options
from lab.tables import print_table
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.pipeline.calibration import Calibration
from spacy_bcrf.promises.control import GRIDS, Evidence, Loss, Promise, fit_threshold
from spacy_bcrf.promises.risk import Units, count_units, excess_losses

CORPORA = ("wnut17", "jnlpba")
PROMISES = {"precision": [0.95, 0.9, 0.8], "recall": [0.98, 0.95, 0.9]}

COLUMNS = (
    "corpus",
    "promise",
    "max units",
    "best threshold, all of dev",
    "splits with a threshold",
    "kept",
    "on the other half",
    "threshold",
    "recall",
    "spans per sentence",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=CORPORA)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--confidence", type=float, default=0.95)
    for kind, values in PROMISES.items():
        parser.add_argument(f"--{kind}", type=float, nargs="+", default=values)
    parser.add_argument("--max-units", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--limit", type=int, help="training sentences")
    args = parser.parse_args()
    rows = []
    for corpus in args.only:
        evidence, candidates = predict(corpus, args)
        gold = evidence["recall"]
        print(
            f"{corpus}: {gold.n_docs:,} sentences, {len(np.unique(gold.docs)):,} with entities",
            flush=True,
        )
        for kind, units in evidence.items():
            for max_units, value in product(args.max_units, getattr(args, kind)):
                promise = Promise((), value, 1 - args.confidence)
                cells = run_splits(kind, units, gold, candidates, promise, max_units, args.splits)
                reach = find_best(kind, units, max_units)
                row = corpus, f"{kind} {value:g}", max_units, f"{reach:.3f}", *cells
                rows.append(dict(zip(COLUMNS, row, strict=True)))
    notes = f"{args.splits} random halves of dev, confidence {args.confidence:g}"
    print_table("Promises", rows, notes)


def predict(corpus: str, args: argparse.Namespace) -> tuple[dict[str, Units], Units]:
    """Train a chain. Return the units of each promise, and the candidates, on dev.

    The last tenth of the training sentences calibrates the temperature.
    """
    task = TASKS[corpus]
    vocab = task.make_nlp(None).vocab
    train, dev = (
        task.read(Path(args.corpora), part, args.cache, vocab) for part in ("train", "dev")
    )
    nlp = task.make_nlp({**MODEL, "templates": task.templates}, vocab)
    train = train[: args.limit]
    n_held_out = len(train) // 10
    fit_sparse_chain(nlp, task.examples(nlp, train[:-n_held_out]), args.passes)
    ((_, pipe),) = nlp.pipeline
    labeler: Any = pipe
    held_out = task.examples(nlp, train[-n_held_out:])
    labeler.temperature = Calibration(labeler, held_out).fit()
    print(f"{corpus}: temperature {labeler.temperature:.2f}", flush=True)
    examples = task.examples(nlp, dev)
    evidence = {kind: Evidence(labeler, examples, kind).units for kind in PROMISES}
    found = labeler.entity_candidates(
        [example.predicted for example in examples], float(GRIDS["recall"][0])
    )
    counts = [len(of_doc) for of_doc in found]
    posteriors = np.array([one.probability for of_doc in found for one in of_doc])
    docs = np.repeat(np.arange(len(counts)), counts)
    return evidence, Units(docs, posteriors, np.ones(len(docs), dtype=bool), len(dev))


def find_best(kind: str, units: Units, max_units: int) -> float:
    """Return the highest precision or recall that any threshold has on all documents."""
    counts = count_units(kind, units, GRIDS[kind])
    weights = (counts.total.clip(max=max_units) / max_units).sum(0)
    is_used = weights >= 1
    losses = excess_losses(counts, 0, max_units).sum(0)[is_used] / weights[is_used]
    return 1 - float(losses.min())


def run_splits(
    kind: str,
    units: Units,
    gold: Units,
    candidates: Units,
    promise: Promise,
    max_units: int,
    n_splits: int,
) -> tuple[str, ...]:
    """Return the cells of a row, means over the splits with a threshold."""
    rng = np.random.default_rng(0)
    measured, thresholds, recalls, spans = [], [], [], []
    for _ in tqdm(range(n_splits), kind, leave=False, disable=None):
        is_dev = np.zeros(units.n_docs, dtype=bool)
        is_dev[rng.permutation(units.n_docs)[: units.n_docs // 2]] = True
        try:
            kept = fit_threshold(
                units.select(is_dev[units.docs]), kind, promise, Loss("span", max_units)
            )
        except ValueError:
            continue
        test, of_gold, of_candidates = (
            part.select(~is_dev[part.docs]) for part in (units, gold, candidates)
        )
        at = count_units(kind, test, np.array([kept.threshold]))
        excess = excess_losses(at, 1 - promise.value, max_units).sum()
        weights = (at.total.clip(max=max_units) / max_units).sum()
        measured.append(promise.value - excess / max(weights, 1e-9))
        thresholds.append(kept.threshold)
        if kind == "precision":
            n_right, n_spans = (at.total - at.wrong).sum(), at.total.sum()
        else:
            n_right = (of_gold.posteriors >= kept.threshold).sum()
            n_spans = (of_candidates.posteriors >= kept.threshold).sum()
        recalls.append(n_right / len(of_gold.docs))
        spans.append(n_spans / (~is_dev).sum())
    found = f"{len(measured)} of {n_splits}"
    if not measured:
        return found, "-", "-", "-", "-", "-"
    is_kept = np.array(measured) >= promise.value
    means = (np.mean(values) for values in (measured, thresholds, recalls, spans))
    return found, f"{100 * is_kept.mean():.1f}%", *(f"{mean:.3f}" for mean in means)


if __name__ == "__main__":
    main()
