"""Speed and accuracy of word segmentation by head, and its share of merging.

    python -m benchmarks.segmenter --corpora DIR

Train `configs/segmentation.cfg` with each head on each corpus. --out keeps the models, so the
command can be interrupted and resumed.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import spacy
from spacy.cli.evaluate import evaluate
from spacy.cli.train import train
from spacy.util import minibatch

from benchmarks.tasks import HEADS
from lab import ROOT
from lab.corpora import Corpus, convert_parts
from lab.machine import describe_machine
from lab.options import add_options
from lab.paper import EXPERIMENTS
from lab.processes import in_own_process
from lab.tables import print_table

CORPORA = EXPERIMENTS["seg"].corpora


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    heads = ["bcrf", "crf", "unstructured"]
    parser.add_argument("--heads", nargs="+", choices=HEADS, default=heads)
    parser.add_argument("--langs", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--steps", type=int, default=800, help="training steps")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of timing")
    parser.add_argument("--out", type=Path, default=ROOT / "training/segmenter", metavar="DIR")
    args = parser.parse_args()
    rows = []
    for lang in args.langs:
        corpus = CORPORA[lang]
        prefix = f"{args.out / lang}/"
        paths = convert_parts(args.corpora, corpus, prefix)
        for head in args.heads:
            model = train_head(lang, head, paths, args.out, args.steps)
            scores = evaluate(str(model), paths["test"])
            row = {"corpus": lang, "head": head}
            row |= {
                "words F": f"{100 * scores['token_f']:.2f}",
                "tagged words F": f"{100 * scores['tagged_token_f']:.2f}",
            }
            texts = read_texts(args.corpora, corpus)
            rows.append(row | in_own_process(speed, model, texts, args.rounds))
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"{args.steps} steps, seed 0; scores in percent on test, of the best step on dev\n"
        f"chars/s: nlp.pipe over texts, median of {args.rounds} rounds after a warm-up; "
        "processor time of one thread, wall-clock time with n_process = 2\n"
        "merging of words, splitting into characters: share of the processor time of nlp.pipe"
    )
    print_table("word segmentation", rows, notes, args.csv)


def train_head(lang: str, head: str, paths: dict[str, Path], output: Path, steps: int) -> Path:
    """Train a head on a corpus if there is no model yet. Return the best model."""
    folder = output / lang / f"{head}-{steps}"
    if not (folder / "model-last").exists():
        overrides = {
            "nlp.lang": lang,
            "paths.train": str(paths["train"]),
            "paths.dev": str(paths["dev"]),
            "training.max_steps": steps,
            "training.eval_frequency": 200,
            "components.segmenter.model.head.@layers": HEADS[head],
        }
        train(ROOT / "configs/segmentation.cfg", folder, overrides=overrides)
    return folder / "model-best"


def read_texts(corpora: Path, corpus: Corpus) -> list[str]:
    """Read the test sentences of a corpus without spaces."""
    return ["".join(sentence.words) for sentence in corpus.read(corpora, "test")]


def speed(model: Path, texts: list[str], rounds: int) -> dict[str, str]:
    """Measure the characters/s of a model, and the shares of merging and of splitting."""
    nlp = spacy.load(model)
    segmenter: Any = nlp.get_pipe("segmenter")
    # Long enough that the start of the processes hardly counts.
    texts = texts * 10
    seconds: dict[str, list[float]] = defaultdict(list)

    def timed(name: str, results: Iterator, clock: Callable = time.process_time) -> list:
        """Consume a lazy iterator and add its time to `seconds`."""
        start = clock()
        consumed = list(results)
        seconds[name].append(clock() - start)
        return consumed

    for _ in range(rounds + 1):
        timed("all", nlp.pipe(texts))
        docs = timed("characters", map(nlp.make_doc, texts))
        batches = list(minibatch(docs, nlp.batch_size))
        predictions = [segmenter.predict(batch) for batch in batches]
        timed("merging", map(segmenter.write, batches, predictions))
    # A fork makes the parent's next writes copy memory, so the two kinds do not interleave.
    for _ in range(rounds + 1):
        timed("two", nlp.pipe(texts, n_process=2), time.perf_counter)
    n_characters = sum(map(len, texts))
    took = {name: median(times[1:]) for name, times in seconds.items()}
    return {
        "chars/s": f"{n_characters / took['all']:,.0f}",
        "2 processes": f"{n_characters / took['two']:,.0f}",
        "merging": f"{took['merging'] / took['all']:.1%}",
        "characters": f"{took['characters'] / took['all']:.1%}",
    }


if __name__ == "__main__":
    main()
