"""F of a sparse chain against the share of the labels that each document is annotated with.

    python -m experiments.annotated_share --corpora DIR

Each training sentence keeps the entities of some random labels. "partial" names these labels as
annotated, "missing as O" does not, and "fewer sentences" annotates all labels in this share of the
sentences.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

from spacy.tokens import Doc

from experiments.template_ablation import MODEL
from lab.labeling_tasks import TASKS, add_options
from lab.masking import with_entities
from lab.tables import Row, mean_and_deviation, print_table
from spacy_bcrf.judging.folds import fit_sparse_chain

METHODS = ("partial", "fewer sentences", "missing as O")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--task", choices=("jnlpba", "wnut17"), default="jnlpba")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=int, help="training sentences")
    args = parser.parse_args()
    task = TASKS[args.task]
    vocab = task.make_nlp(None).vocab
    train, test = (task.read(args.corpora, part, args.cache, vocab) for part in ("train", "test"))
    train = train[: args.limit]
    labels = sorted({ent.label_ for doc in train for ent in doc.ents})
    rows: list[Row] = []
    for n in range(1, len(labels) + 1):
        scores: dict[str, list[float]] = {method: [] for method in METHODS}
        for seed in range(args.seeds):
            for method in METHODS:
                nlp = task.make_nlp({**MODEL, "templates": task.templates}, vocab)
                docs = annotate(train, labels, n, method, seed)
                fit_sparse_chain(nlp, task.examples(nlp, docs), args.passes)
                scores[method].append(100 * nlp.evaluate(task.examples(nlp, test))[task.score])
        cells = {method: mean_and_deviation(found) for method, found in scores.items()}
        rows.append({"annotated": f"{n / len(labels):.0%}", **cells})
    print_table(
        "F against the annotated share",
        rows,
        f"{args.task}, {len(train):,} training sentences, {len(labels)} labels, "
        f"{args.seeds} seed(s), F on test",
    )


def annotate(
    docs: Sequence[Doc], labels: Sequence[str], n: int, method: str, seed: int
) -> list[Doc]:
    """Return the documents with the annotation of n labels each, or n / L of the documents."""
    rng = random.Random(seed)
    if method == "fewer sentences":
        return rng.sample(list(docs), round(len(docs) * n / len(labels)))
    masked = []
    for doc in docs:
        known = rng.sample(labels, n)
        copy = with_entities(doc, [ent for ent in doc.ents if ent.label_ in known], "outside")
        copy._.annotated_labels = known if method == "partial" else None
        masked.append(copy)
    return masked


if __name__ == "__main__":
    main()
