"""Whole pipelines with the compiled CNN against spaCy's: prediction, one text, training, memory.

    python -m benchmarks.acceleration [--threads 1 2]

All pipelines have the CNN of spaCy's default configuration: width 96, depth 4, 3 pieces. Weights
are random, because speed does not depend on them. `accelerated` pipelines are spaCy's own after
`spacy_bcrf.accelerate(nlp)`. Each number of threads has a table, measured in a process of its own.
`outside` is the share of prediction outside of kernels and of spaCy's loop over a pipeline.
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from statistics import median
from time import process_time
from typing import Any
from unittest.mock import patch

from benchmarks.inputs import NETWORK
from benchmarks.timing import clock_of, interleave
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.processes import in_own_process, peak_memory
from lab.tables import print_table

LABELS = {"ner": ["PER", "LOC", "ORG", "MISC"], "tagger": [f"T{i}" for i in range(17)]}
CONTENDERS = [
    ("ner", "ner", False),
    ("ner, accelerated", "ner", True),
    ("bcrf_ner", "bcrf_ner", False),
    ("tagger", "tagger", False),
    ("tagger, accelerated", "tagger", True),
    ("bcrf_tagger", "bcrf_tagger", False),
]
TASKS = ("predict", "one text", "train")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_csv_option(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1], metavar="N")
    args = parser.parse_args()
    for threads in args.threads:
        rows = in_own_process(measure, threads, args.rounds)
        for row, (_, component, accelerated) in zip(rows, CONTENDERS, strict=True):
            memory = in_own_process(measure_memory, component, accelerated)
            row["peak MiB"] = f"{memory / 2**20:.0f}"
            # The kernels of spaCy's components are not counted.
            ours = component.startswith("bcrf") and threads == 1
            row["outside"] = (
                f"{in_own_process(measure_outside, component, args.rounds):.2f}" if ours else ""
            )
        notes = (
            f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
            f"us/word, medians of {args.rounds} rounds, {threads} thread(s); one text: 20 words, "
            "us; x: times as fast as spaCy's"
        )
        print_table("Pipelines", rows, notes, args.csv)


def make_pipeline(component: str, accelerated: bool) -> tuple[Any, list[Any]]:
    """Return a pipeline with random weights, and training examples."""
    import numpy as np
    import spacy
    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_bcrf import accelerate

    nlp = spacy.blank("en")
    labels = LABELS[component.removeprefix("bcrf_")]
    config = {"model": NETWORK} if component.startswith("bcrf_") else {}
    pipe: Any = nlp.add_pipe(component, config=config)
    rng = np.random.default_rng(0)
    examples: list[Any] = []
    for _ in range(500):
        words = [f"w{i}" for i in (rng.zipf(1.3, 20) % 20000).tolist()]
        gold = Doc(nlp.vocab, words=words)
        if component.endswith("ner"):
            gold.ents = [spacy.tokens.Span(gold, 3, 5, label=labels[len(examples) % 4])]
        else:
            for token in gold:
                token.tag_ = labels[token.i % len(labels)]
        examples.append(Example(Doc(nlp.vocab, words=words), gold))
    for label in labels:
        pipe.add_label(label)
    nlp.initialize(lambda: examples[:50])
    if accelerated:
        accelerate(nlp)
    return nlp, examples


def measure(threads: int, rounds: int) -> list[dict[str, object]]:
    """Return a row for each contender."""
    from bcrf import kernels

    kernels.set_threads(threads)
    tasks: dict[str, dict[str, Callable[[], object]]] = {task: {} for task in TASKS}
    for name, component, accelerated in CONTENDERS:
        nlp, examples = make_pipeline(component, accelerated)
        sgd = nlp.create_optimizer()
        text = " ".join(token.text for token in examples[0].reference)
        tasks["predict"][name] = partial(predict, nlp, examples)
        tasks["one text"][name] = partial(nlp, text)
        tasks["train"][name] = partial(train, nlp, sgd, examples[:100])
    rows: dict[str, dict[str, object]] = {name: {"pipeline": name} for name, _, _ in CONTENDERS}
    words = {"predict": 20 * 500, "one text": 1, "train": 20 * 100}
    for task, contenders in tasks.items():
        seconds = interleave(contenders, rounds, clock_of(threads))
        for name, component, _ in CONTENDERS:
            theirs = seconds[component.removeprefix("bcrf_")]
            rows[name][task] = f"{seconds[name] / words[task] * 1e6:.1f}"
            rows[name][f"x {task}"] = f"{theirs / seconds[name]:.1f}"
    return list(rows.values())


def measure_memory(component: str, accelerated: bool) -> int:
    """Return the peak memory of prediction and training."""
    os.environ["BCRF_THREADS"] = "1"
    nlp, examples = make_pipeline(component, accelerated)
    predict(nlp, examples)
    train(nlp, nlp.create_optimizer(), examples[:100])
    return peak_memory()


def measure_outside(component: str, rounds: int) -> float:
    """Return the share of the time of prediction outside of kernels and of spaCy's loop."""
    import spacy
    from thinc.api import NumpyOps

    from bcrf import kernels
    from bcrf.kernels import encoder

    kernels.set_threads(1)
    spent = 0.0

    def timed(run: Callable) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal spent
            start = process_time()
            result = run(*args, **options)
            spent += process_time() - start
            return result

        return call

    class Stack(encoder.Stack):
        predict = timed(encoder.Stack.predict)

    class DistinctRows(encoder.DistinctRows):
        number = timed(encoder.DistinctRows.number)
        rows = timed(encoder.DistinctRows.rows)

    shares = []
    with (
        patch.object(encoder, "Stack", Stack),
        patch.object(encoder, "DistinctRows", DistinctRows),
        patch.object(encoder, "fingerprint", timed(encoder.fingerprint)),
        patch.object(kernels, "max_product", timed(kernels.max_product)),
        patch.object(kernels, "bregman", timed(kernels.bregman)),
        patch.object(NumpyOps, "gemm", timed(NumpyOps.gemm)),
    ):
        nlp, examples = make_pipeline(component, False)
        empty = spacy.blank("en", vocab=nlp.vocab)
        idle: Any = empty.add_pipe("sentencizer")
        idle.pipe = lambda docs, **_: docs
        for _ in range(4 * rounds + 1):
            loop = predict(empty, examples)
            spent = 0.0
            whole = predict(nlp, examples)
            shares.append((whole - loop - spent) / whole)
    # The first round is a warm-up.
    return median(shares[1:])


def predict(nlp: Any, examples: list[Any]) -> float:
    """Annotate copies of the documents. RETURNS the processor time of `nlp.pipe`."""
    docs = [example.predicted.copy() for example in examples]
    start = process_time()
    for _ in nlp.pipe(docs, batch_size=256):
        pass
    return process_time() - start


def train(nlp: Any, sgd: Any, examples: list[Any]) -> None:
    for i in range(0, len(examples), 50):
        nlp.update(examples[i : i + 50], sgd=sgd, drop=0.1)


if __name__ == "__main__":
    main()
