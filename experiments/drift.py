"""How soon `monitor` finds other documents, and how often it is wrong.

    python -m experiments.drift --corpora DIR

Trains a sparse chain on UNER's English EWT. "halves": the sentences of its test part are split into
random halves, a reference and new documents. "WNUT17": after a reference of EWT come tweets and
comments of WNUT17. The alarm is at an evidence of 20. --parts: corpora whose test part
is compared with promises on their dev part.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from experiments.template_ablation import MODEL
from lab.labeling_tasks import TASKS, add_options
from lab.tables import markdown_table
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.judging.folds import fit_sparse_chain, train_sparse_chain
from spacy_bcrf.loading import find_labeler
from spacy_bcrf.promises.calibrate import calibrate
from spacy_bcrf.promises.control import control, measure_promises
from spacy_bcrf.promises.monitor import Watch, measure_docs, monitor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--parts", nargs="*", choices=TASKS, default=["wnut17", "jnlpba"])
    args = parser.parse_args()
    for corpus in args.parts:
        compare_parts(corpus, args)
    uner, wnut = TASKS["uner"], TASKS["wnut17"]
    vocab = uner.make_nlp(None).vocab
    train, dev, test = (
        uner.read(Path(args.corpora), part, args.cache, vocab) for part in ("train", "dev", "test")
    )
    other = wnut.read(Path(args.corpora), "test", args.cache, vocab)
    nlp = train_sparse_chain(train, ["LOC", "ORG", "PER"], "en")
    calibrate(nlp, dev)
    control(nlp, test, recall=0.8)
    name, labeler = find_labeler(nlp)
    values, new = (
        measure_docs(nlp, name, labeler, [copy_words(doc, nlp.vocab) for doc in docs])[0]
        for docs in (test, other)
    )
    alarms = {"EWT halves": 0, f"{args.documents} of WNUT17 after EWT": 0}
    small = 0
    first = []
    for seed in range(args.runs):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(values))
        half = len(order) // 2
        some = new[rng.permutation(len(new))[: args.documents]]
        for what, part in zip(alarms, (values[order[half:]], some), strict=True):
            watch = Watch.start("", values[order[:half]])
            watch.update(part)
            rows = watch.compare()
            alarms[what] += max(row.evidence for row in rows) >= 20
            small += part is not some and min(row.p for row in rows) <= 0.05
        if seed < 50:
            first.append(count_documents(values[order[:half]], some))
    rows_of_table = [("new documents", "runs with an alarm")]
    rows_of_table += [(what, f"{n} of {args.runs}") for what, n in alarms.items()]
    print(markdown_table(rows_of_table), end="")
    print(f"two-sample tests at 5%, EWT halves: {small} of {args.runs}")
    print(
        f"WNUT17: documents at the first alarm in 50 runs, median {np.median(first):.0f}, ", end=""
    )
    print(f"at most {max(first):.0f}")


def compare_parts(corpus: str, args: argparse.Namespace) -> None:
    """Print what promises on dev reach on test, and whether `monitor` finds test different."""
    task = TASKS[corpus]
    vocab = task.make_nlp(None).vocab
    train, dev, test = (
        task.read(Path(args.corpora), part, args.cache, vocab) for part in ("train", "dev", "test")
    )
    nlp = task.make_nlp({**MODEL, "templates": task.templates}, vocab)
    n_held_out = len(train) // 10
    fit_sparse_chain(nlp, task.examples(nlp, train[:-n_held_out]), 5)
    calibrate(nlp, train[-n_held_out:])
    _, labeler = find_labeler(nlp)
    order = np.random.default_rng(0).permutation(len(test))[: args.documents].tolist()
    new, reference = (
        [copy_words(doc, nlp.vocab) for doc in docs] for docs in ([test[i] for i in order], dev)
    )
    promises: list[dict[str, float]] = [{"precision": 0.8}, {"recall": 0.95}, {"recall": 0.8}]
    for promise in promises:
        labeler.control = None
        try:
            notes = control(nlp, dev, None, **promise).notes  # type: ignore[arg-type]
        except ValueError as error:
            print(f"{corpus}: {error}", flush=True)
            continue
        (row,) = measure_promises(labeler, task.examples(nlp, test))
        print(
            f"{corpus}, {promise}: {row['reached']:.3f} on test ({row['low']:.3f} to "
            f"{row['high']:.3f}); {notes}; {monitor(nlp, new, reference)!r}",
            flush=True,
        )


def count_documents(reference: np.ndarray, new: np.ndarray) -> float:
    """Return the number of new documents at the first alarm, in steps of five."""
    watch = Watch.start("", reference)
    for start in range(0, len(new), 5):
        watch.update(new[start : start + 5])
        if max(row.evidence for row in watch.compare()) >= 20:
            return start + 5
    return np.inf


if __name__ == "__main__":
    main()
