"""Simulated annotation: the score by number of annotated tokens, for several orders of documents.

    python -m experiments.active_learning --corpora DIR -o active-learning.png

Each run starts from the same random sentences of a seed. In each round, a sparse chain learns from
all annotated sentences and chooses the next ones among the rest of the pool. The last table tells
whether an order reaches with half of the tokens what random sentences reach with all of them. The
plot needs the extra plot.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc
from tqdm import tqdm

from experiments.template_ablation import MODEL
from lab.figures import make_figure, save_figure
from lab.labeling_tasks import TASKS, LabelingTask, add_options
from lab.tables import markdown_table, mean_and_deviation
from spacy_bcrf.judging.diversity import NearDuplicates, document_vectors, facility_location
from spacy_bcrf.judging.folds import fit_sparse_chain

CORPORA = ("wnut17", "jnlpba")
POOL_FACTOR = 4
"""Size of the pool of a diverse choice, in chosen tokens."""


class Order(NamedTuple):
    """An order of documents. by, per: see `PosteriorQueries.uncertainty`; None for random."""

    by: str | None = None
    per: str = "token"
    is_diverse: bool = False


ORDERS = {
    "random": Order(),
    "whole document": Order("confidence", "document"),
    "per token": Order("entropy"),
    "per entity": Order("entropy", "entity"),
    "per token, diverse": Order("entropy", "token", True),
    "per entity, diverse": Order("entropy", "entity", True),
}

Curve = list[tuple[int, float]]
"""Numbers of annotated tokens and scores of the rounds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=CORPORA)
    parser.add_argument(
        "--orders", nargs="+", choices=ORDERS, default=list(ORDERS), help="with random"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pool", type=int, default=4000, help="sentences")
    parser.add_argument("--dev", type=int, default=1000, help="sentences")
    parser.add_argument("--tokens", type=int, default=20000, help="annotated in all")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--output", "-o", type=Path, help="PNG of the curves")
    args = parser.parse_args()
    if args.rounds % 2:
        parser.error("--rounds must be even: a round ends at half of the tokens")
    args.orders = list(dict.fromkeys(["random", *args.orders]))
    found = {corpus: simulate(TASKS[corpus], corpus, args) for corpus in args.only}
    for corpus, curves in found.items():
        print(f"\n{corpus}\n\n{tabulate(curves)}", end="")
    print(f"\n{compare(found)}", end="")
    if args.output:
        draw(found, args.output)


def simulate(task: LabelingTask, name: str, args: argparse.Namespace) -> dict[str, list[Curve]]:
    """Return the curves of each order, one for each seed."""
    vocab = task.make_nlp(None).vocab
    pool, dev = (
        task.read(Path(args.corpora), part, args.cache, vocab)[:limit]
        for part, limit in (("train", args.pool), ("dev", args.dev))
    )
    pool = [doc for doc in pool if len(doc)]
    n_tokens = sum(map(len, pool))
    if n_tokens < 1.5 * args.tokens:
        raise SystemExit(
            f"{name}: the pool has {n_tokens:,} tokens; expected at least 1.5 x --tokens"
        )
    print(f"{name}: {len(pool):,} sentences, {n_tokens:,} tokens in the pool", flush=True)
    curves: dict[str, list[Curve]] = {order: [] for order in args.orders}
    runs = [(seed, order) for seed in range(args.seeds) for order in args.orders]
    for seed, order in tqdm(runs, name, disable=None):
        curve = annotate(task, pool, dev, ORDERS[order], seed, args)
        curves[order].append(curve)
        shown = " ".join(f"{score:.1f}" for _, score in curve)
        print(f"{name} seed {seed} {order}: {shown}", flush=True)
    return curves


def annotate(
    task: LabelingTask,
    pool: Sequence[Doc],
    dev: Sequence[Doc],
    order: Order,
    seed: int,
    args: argparse.Namespace,
) -> Curve:
    """Return the curve of one run. The first round takes random sentences."""
    left = list(pool)
    random.Random(seed).shuffle(left)
    step = args.tokens / args.rounds
    labels = sorted({ent.label_ for doc in pool for ent in doc.ents})
    chosen: list[Doc] = []
    curve: Curve = []
    nlp = None
    for i in range(args.rounds):
        if nlp is not None and order.by is not None:
            left = sort_docs(task, nlp, left, order, step)
        n_known = sum(map(len, chosen))
        taken = take(left, round((i + 1) * step) - n_known)
        chosen, left = chosen + taken, left[len(taken) :]
        nlp = task.make_nlp({**MODEL, "templates": task.templates}, pool[0].vocab)
        for label in labels:
            nlp.get_pipe(task.factory).add_label(label)  # type: ignore[attr-defined]
        examples = task.examples(nlp, chosen)
        random.Random(seed).shuffle(examples)
        fit_sparse_chain(nlp, examples, args.passes)
        score = nlp.evaluate(task.examples(nlp, list(dev)))[task.score]
        curve.append((sum(map(len, chosen)), 100 * (score or 0)))
    return curve


def take(docs: Iterable[Doc], n_tokens: int) -> list[Doc]:
    """Return the first documents with this number of tokens in all; the last one may exceed it."""
    taken: list[Doc] = []
    for doc in docs:
        if n_tokens <= 0:
            break
        taken.append(doc)
        n_tokens -= len(doc)
    return taken


def sort_docs(
    task: LabelingTask, nlp: Any, docs: Sequence[Doc], order: Order, step: float
) -> list[Doc]:
    """Return the documents in the order of a round, the best first."""
    pipe = nlp.get_pipe(task.factory)
    predicted = [example.predicted for example in task.examples(nlp, list(docs))]
    uncertainty = pipe.uncertainty(predicted, order.by, per=order.per)
    ranked = np.argsort(-uncertainty, kind="stable").tolist()
    if order.is_diverse:
        duplicates = NearDuplicates(0.8)
        kept = [i for i in ranked if duplicates.keep(docs[i].text)]
        pool = kept[: len(take([docs[i] for i in kept], round(POOL_FACTOR * step)))]
        vectors = document_vectors(pipe, [predicted[i] for i in pool])
        best = [pool[j] for j in facility_location(vectors, uncertainty[pool], len(pool))]
        chosen = set(best)
        ranked = best + [i for i in ranked if i not in chosen]
    return [docs[i] for i in ranked]


def tabulate(curves: dict[str, list[Curve]]) -> str:
    """Return a table of scores, a row for each number of annotated tokens."""
    first = next(iter(curves.values()))[0]
    rows: list[Sequence[object]] = [("tokens", *curves)]
    for i in range(len(first)):
        cells = (mean_and_deviation([curve[i][1] for curve in runs], 1) for runs in curves.values())
        mean = np.mean([curve[i][0] for runs in curves.values() for curve in runs])
        rows.append((f"{mean:,.0f}", *cells))
    return markdown_table(rows)


def compare(found: dict[str, dict[str, list[Curve]]]) -> str:
    """Return a table that compares each order at half of the tokens with random at all."""
    rows: list[Sequence[object]] = [
        ("corpus", "order", "half of the tokens", "all tokens", "random, all tokens", "reached")
    ]
    for corpus, curves in found.items():
        bar = [curve[-1][1] for curve in curves["random"]]
        for order, runs in curves.items():
            half, whole = ([curve[i][1] for curve in runs] for i in (len(runs[0]) // 2 - 1, -1))
            cells = (mean_and_deviation(values, 1) for values in (half, whole, bar))
            reached = "yes" if np.mean(half) >= np.mean(bar) else "no"
            rows.append((corpus, order, *cells, reached))
    return markdown_table(rows)


def draw(found: dict[str, dict[str, list[Curve]]], path: Path) -> None:
    """Draw the mean scores by number of annotated tokens, a panel for each corpus."""
    figure = make_figure(5.5 * len(found), 4)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for panel, (corpus, curves) in zip(panels, found.items(), strict=True):
        for order, runs in curves.items():
            tokens, scores = np.mean(runs, axis=0).T
            panel.plot(tokens, scores, marker="o", label=order)
        panel.set_title(corpus)
        panel.set_xlabel("annotated tokens")
        panel.set_ylabel("F")
        panel.legend()
    save_figure(figure, path)


if __name__ == "__main__":
    main()
