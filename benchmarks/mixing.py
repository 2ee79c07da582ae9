"""Iterative parameter mixing against one process: scores, and seconds a pass.

    python -m benchmarks.mixing --corpora DIR --out training/mixing
    python -m benchmarks.mixing --corpora DIR --out training/mixing --ways "2 Ray actors"

One process makes the same number of passes, one after the other, with one learner. --out keeps the
rounds and the measurements, so the command can be interrupted and resumed.
"""

import argparse
import json
import random
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.util import fix_random_seed, minibatch

from bcrf.io.atomic import write_text
from lab.labeling_tasks import TASKS, LabelingTask
from lab.machine import describe_machine
from lab.options import add_options
from lab.tables import print_table
from spacy_bcrf.bulk.learner import BATCH, BUFFER
from spacy_bcrf.bulk.mixing import learn_in_rounds
from spacy_bcrf.corpora.doc_files import Writer, find_files, read_shuffled

ONE = "one process"
WAYS: dict[str, dict[str, Any]] = {
    ONE: {},
    "2 processes": {"n_processes": 2},
    "2 Ray actors": {"n_processes": 2, "engine": "ray"},
}
SHARD = 1000
ATTRS = ("ORTH", "SPACY", "TAG", "POS", "ENT_IOB", "ENT_TYPE")
"""What the shards keep. Parses would take longer to read than the tags take to learn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--out", type=Path, default=Path("training/mixing"), metavar="DIR")
    parser.add_argument(
        "--tasks", nargs="+", choices=TASKS, default=["ewt-pos", "wnut17", "jnlpba"]
    )
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sentences", type=int, metavar="N", help="learn from the first N alone")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    for name in args.tasks:
        out = args.out / (f"{name}-{args.sentences}" if args.sentences else name)
        for way in args.ways:
            runs = [
                load_run(out, args.corpora, name, way, args.rounds, seed, args.sentences)
                for seed in range(args.seeds)
            ]
            dev, test, seconds = (
                sum(run[key] for run in runs) / len(runs) for key in ("dev", "test", "seconds")
            )
            rows.append(
                {
                    "corpus": name,
                    "way": way,
                    "dev": f"{100 * dev:.2f}",
                    "test": f"{100 * test:.2f}",
                    "s a pass": f"{seconds:.2f}",
                }
            )
            print(*rows[-1].values(), flush=True)
    notes = (
        f"{describe_machine(['spacy', 'numpy'])}\n"
        f"{args.rounds} passes; F of entities, accuracy of UPOS tags (ewt-pos); mean of "
        f"{args.seeds} seeds; s a pass: the fastest"
    )
    print_table("Iterative parameter mixing", rows, notes, args.csv)


def load_run(
    out: Path, corpora: Path, name: str, way: str, rounds: int, seed: int, sentences: int | None
) -> dict[str, float]:
    """Return scores and seconds of a run. Learn unless they are stored."""
    folder = out / f"{way.replace(' ', '-')}-{seed}"
    store = out / f"{folder.name}-{rounds}.json"
    if not store.exists():
        task = TASKS[name]
        fix_random_seed(seed)
        model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": task.templates}
        model["objective"] = "sapo"
        nlp = task.make_nlp(model)
        parts = {part: task.read(corpora, part, out / "cache", nlp.vocab) for part in task.parts}
        parts["train"] = parts["train"][:sentences]
        corpus = out / "train"
        if not corpus.exists():
            with Writer(corpus, SHARD, ATTRS) as writer:
                for doc in parts["train"]:
                    writer.add(doc)
        nlp.initialize(lambda: task.examples(nlp, parts["train"]))
        (pipe,) = nlp.pipe_names
        times = [time.perf_counter()]

        def after(*_: object) -> None:
            times.append(time.perf_counter())

        if way == ONE:
            for number in range(rounds):
                make_pass(nlp, task, corpus, seed * 1000 + number)
                after()
        else:
            last = learn_in_rounds(
                nlp, pipe, corpus, folder, rounds, seed=seed, after=after, **WAYS[way]
            )
            nlp = spacy.load(last)
        scores = {
            part: nlp.evaluate(task.examples(nlp, parts[part]))[task.score]
            for part in ("dev", "test")
        }
        seconds = [end - start for start, end in pairwise(times)]
        write_text(store, json.dumps({**scores, "seconds": min(seconds, default=float("nan"))}))
    return json.loads(store.read_text())


def make_pass(nlp: Language, task: LabelingTask, corpus: Path, seed: int) -> None:
    """Make one pass over a corpus, in the random order of `learn_in_rounds`."""
    docs = read_shuffled(find_files(corpus), nlp.vocab, random.Random(seed), BUFFER)
    for batch in minibatch(docs, BATCH):
        nlp.update(task.examples(nlp, list(batch)))


if __name__ == "__main__":
    main()
