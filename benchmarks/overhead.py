"""What a sparse chain adds to spaCy from texts, and the speed of a sparse segmenter.

    python -m benchmarks.overhead --corpora DIR

The chain has the templates "ner" and learns JNLPBA, the segmenter learns the words of Chinese GSD.
Rounds of all contenders are interleaved.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import spacy
from spacy.language import Language

from bcrf import kernels
from benchmarks.accuracy import linear_chain
from benchmarks.timing import time_rounds
from lab import ROOT
from lab.labeling_tasks import TASKS, LabelingTask
from lab.machine import describe_machine
from lab.options import add_options
from lab.processes import in_own_process
from lab.tables import print_table
from spacy_bcrf.judging.folds import fit_sparse_chain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=ROOT / "training/overhead", metavar="DIR")
    args = parser.parse_args()
    notes = (
        f"{describe_machine(['spacy', 'numpy'])}\n"
        f"processor time of one thread, median of {args.rounds} interleaved rounds; times: median "
        f"(least, most) of the rounds' ratios; {args.passes} passes"
    )
    for title, measure in (("From texts", time_chain), ("Segmenter", time_segmenter)):
        rows = in_own_process(measure, args.corpora, args.out, args.passes, args.rounds)
        print_table(title, rows, notes, args.csv)


def train(
    task: LabelingTask, corpora: Path, cache: Path, passes: int
) -> tuple[Language, list[str]]:
    """Train the chain of a task. Return the pipeline and the texts of the test part."""
    kernels.set_threads(1)
    nlp = task.make_nlp(linear_chain(task))
    docs = task.read(corpora, "train", cache, nlp.vocab)
    if task.factory == "bcrf_segmenter":
        # One tag for all words: the segmenter finds words alone.
        for token in chain.from_iterable(docs):
            token.pos_ = "X"
    examples = task.examples(nlp, docs)
    fit_sparse_chain(nlp, examples, passes)
    return nlp, [doc.text for doc in task.read(corpora, "test", cache, nlp.vocab)]


def time_chain(corpora: Path, cache: Path, passes: int, rounds: int) -> list[dict[str, str]]:
    """Time `nlp.pipe` over texts, without and with the chain."""
    nlp, texts = train(replace(TASKS["jnlpba"], templates="ner"), corpora, cache, passes)
    blank = spacy.blank("en")
    n_words = sum(map(len, blank.pipe(texts)))
    pipelines = {"spacy.blank": blank, "default chain": nlp}
    runs = {name: piped(pipeline, texts) for name, pipeline in pipelines.items()}
    return make_rows(runs, rounds, n_words, "us/word", lambda seconds: 1e6 * seconds / n_words)


def time_segmenter(corpora: Path, cache: Path, passes: int, rounds: int) -> list[dict[str, str]]:
    """Time `nlp.pipe` and `cut` over texts of Chinese."""
    nlp, texts = train(TASKS["zh"], corpora, cache, passes)
    texts = texts * 5
    segmenter: Any = nlp.get_pipe("bcrf_segmenter")
    runs = {"nlp.pipe": piped(nlp, texts), "cut": lambda: list(segmenter.cut(texts))}
    n_characters = sum(map(len, texts))
    per_second = lambda seconds: n_characters / seconds / 1e6  # noqa: E731
    return make_rows(runs, rounds, n_characters, "million characters/s", per_second)


def piped(nlp: Language, texts: list[str]) -> Callable[[], object]:
    """Return a function that runs a pipeline over texts and drops the documents."""

    def run() -> None:
        for _ in nlp.pipe(texts):
            pass

    return run


def make_rows(
    runs: dict[str, Callable[[], object]],
    rounds: int,
    size: int,
    unit: str,
    scale: Callable[[float], float],
) -> list[dict[str, str]]:
    """Time all runs. Return a row of each, with its time against the first one's."""
    seconds = time_rounds(runs, rounds, time.process_time)
    first = next(iter(runs))
    rows = []
    for name, times in seconds.items():
        ratios = [own / other for own, other in zip(times, seconds[first], strict=True)]
        against = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        row = {"pipeline": name, "size": f"{size:,}", unit: f"{scale(median(times)):.2f}"}
        rows.append(row | {f"times {first}": against})
    return rows


if __name__ == "__main__":
    main()
