"""How often promises are broken, and made, where the truth is known.

    python -m experiments.promises --uses 2000

Each use draws documents whose predictions have a known error rate at each posterior, and fits a
threshold. A promise is broken if the true risk at the threshold is above the promised one. "needed"
is the number of documents that a refusal names, and "suffices" how often so many new ones keep the
promise.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import numpy as np

from lab.tables import markdown_table
from spacy_bcrf.promises.control import Loss, Promise, fit_threshold
from spacy_bcrf.promises.risk import Units, count_units

LEVELS = (0.8, 0.9, 0.95, 0.98, 0.99)
LOSSES = (Loss(), Loss("span", 4), Loss("document"))
TRUTH = 60_000
"""Number of documents that stand for the truth."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uses", type=int, default=2000)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--levels", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--again", type=int, default=100, help="refusals to try again")
    args = parser.parse_args()
    print("| promise | loss | made | broken | needed (median) | suffices |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in ("precision", "recall"):
        for value in args.levels:
            for loss in LOSSES:
                cells = use_promise(kind, Promise(("A",), value, 0.05), loss, args)
                name = "document" if loss.unit == "document" else f"max-units {loss.max_units}"
                line = markdown_table([(f"{kind} {value:g}", name, *cells)] * 2)
                print(line.splitlines()[0], flush=True)


def draw(n_docs: int, seed: int) -> Units:
    """Draw documents of one to eight units whose posteriors are calibrated and depend on them."""
    rng = np.random.default_rng(seed)
    docs = np.repeat(np.arange(n_docs), rng.geometric(0.4, n_docs).clip(max=8))
    ease = rng.normal(0, 0.7, n_docs)[docs]
    logits = rng.normal(2.5, 2, len(docs)) + ease
    posteriors = 1 / (1 + np.exp(-logits))
    return Units(docs, posteriors, rng.random(len(docs)) < posteriors, n_docs)


def use_promise(
    kind: str, promise: Promise, loss: Loss, args: argparse.Namespace
) -> Iterator[object]:
    """Return the cells of a row."""
    truth = draw(TRUTH, -1 % 2**32)
    risk = 1 - promise.value
    true_excess: dict[float, float] = {}
    made = broken = 0
    needed: list[int] = []
    suffices: list[bool] = []
    for seed in range(args.uses):
        threshold, n = fit(draw(args.documents, seed), kind, promise, loss)
        if threshold is not None:
            if threshold not in true_excess:
                counts = count_units(kind, truth, np.array([threshold]))
                true_excess[threshold] = float(loss.excess(counts, risk).sum())
            made += 1
            broken += true_excess[threshold] > 0
        elif n is not None:
            needed.append(n)
            if len(suffices) < args.again:
                # The number is of documents with units, which all documents have here.
                again, _ = fit(draw(n, args.uses + seed), kind, promise, loss)
                suffices.append(again is not None)
    yield f"{100 * made / args.uses:.1f}%"
    yield f"{100 * broken / args.uses:.2f}%"
    yield f"{np.median(needed):,.0f}" if needed else "-"
    yield f"{sum(suffices)} of {len(suffices)}" if suffices else "-"


def fit(units: Units, kind: str, promise: Promise, loss: Loss) -> tuple[float | None, int | None]:
    """Return the threshold, or the number of documents needed; None if it is not named."""
    try:
        return fit_threshold(units, kind, promise, loss).threshold, None
    except ValueError as error:
        found = re.findall(r"about ([\d,]+)", str(error))
        return None, int(found[-1].replace(",", "")) if found else None


if __name__ == "__main__":
    main()
