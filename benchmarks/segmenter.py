"""Word segmentation: how fast, how much of it is merging, and how good with which head.

    python -m benchmarks.segmenter --corpora DIR

Trains `configs/segmentation.cfg` with each head on each corpus, and keeps what is done in --out, so
that it can be stopped and started again.
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

from benchmarks.common import ROOT, add_options, describe_machine, in_own_process, print_table
from benchmarks.tasks import HEADS
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.io.text import find_file, read_lines

CORPORA = {
    "zh": "ud-chinese-gsd/v1.4/zh-ud-{part}.conllu",
    "ja": "ud-japanese-gsd/r2.9/ja_gsd-ud-{part}.conllu",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    heads = ["bcrf", "crf", "unstructured"]
    parser.add_argument("--heads", nargs="+", choices=HEADS, default=heads)
    parser.add_argument("--langs", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--steps", type=int, default=800, help="of training")
    parser.add_argument("--rounds", type=int, default=5, help="of timing")
    parser.add_argument("--out", type=Path, default=ROOT / "training/segmenter", metavar="DIR")
    args = parser.parse_args()
    if args.corpora is None:
        parser.error("needs --corpora DIR or the environment's BCRF_CORPORA")
    rows = []
    for lang in args.langs:
        paths = make_corpora(lang, args.corpora, args.out)
        for head in args.heads:
            model = trained(lang, head, paths, args.out, args.steps)
            scores = evaluate(str(model), paths["test"])
            row = {"corpus": lang, "head": head}
            row |= {
                "words F": f"{100 * scores['token_f']:.2f}",
                "tagged words F": f"{100 * scores['tagged_token_f']:.2f}",
            }
            source = args.corpora / CORPORA[lang].format(part="test")
            rows.append(row | in_own_process(speed, model, source, args.rounds))
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"{args.steps} steps, seed 0, scores on test of the step that was best on dev, in percent\n"
        f"chars/s: nlp.pipe over texts, median of {args.rounds} rounds after one that does not "
        "count; by processor time of one thread, and by the clock with n_process = 2\n"
        "merging, characters: of words and by the tokenizer, in processor time of nlp.pipe"
    )
    print_table("word segmentation", rows, notes, args.csv)


def make_corpora(lang: str, source: Path, output: Path) -> dict[str, Path]:
    paths = {}
    for part in ("train", "dev", "test"):
        paths[part] = output / lang / f"{part}.spacy"
        if not paths[part].exists():
            paths[part].parent.mkdir(parents=True, exist_ok=True)
            file = find_file(source / CORPORA[lang].format(part=part))
            convert([(file, read_conllu)], paths[part], lang=lang)
    return paths


def trained(lang: str, head: str, paths: dict[str, Path], output: Path, steps: int) -> Path:
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


def read_texts(source: Path) -> list[str]:
    """The sentences of a file, without spaces."""
    return ["".join(sentence.words) for sentence in read_conllu(read_lines(find_file(source)))]


def speed(model: Path, source: Path, rounds: int) -> dict[str, str]:
    nlp = spacy.load(model)
    segmenter: Any = nlp.get_pipe("segmenter")
    # Enough that starting processes hardly counts.
    texts = read_texts(source) * 10
    seconds: dict[str, list[float]] = defaultdict(list)

    def timed(name: str, results: Iterator, clock: Callable = time.process_time) -> list:
        """Of a generator or the like, that has not done anything yet."""
        start = clock()
        found = list(results)
        seconds[name].append(clock() - start)
        return found

    for _ in range(rounds + 1):
        timed("all", nlp.pipe(texts))
        docs = timed("characters", map(nlp.make_doc, texts))
        batches = list(minibatch(docs, nlp.batch_size))
        found = [segmenter.predict(batch) for batch in batches]
        timed("merging", map(segmenter.merge, batches, found))
    # Not among the others: after a fork all memory that is written to has to be copied.
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
