"""Scores of a sparse chain, a network and a hybrid, and of the sum of their potentials.

    python -m benchmarks.combined --corpora DIR --tasks conll2000 --seeds 3

The chain and the hybrid have Brown clusters where the template set of the task has them. The
network of a chunker reads the tags that the templates read. The weights of the sum are fitted on
dev, by parts that were trained without dev. If a task learns from dev too, as CoNLL-2000 does, the
parts are then trained again with dev, and the sum keeps its weights.

--stacked takes the chain of `benchmarks.accuracy` with all its resources and a network with word
vectors, from the folder `resources` of --out that `experiments.word_resources` makes.

--out keeps the pipelines, so the command can be interrupted and resumed. A part whose config or
code has changed is trained again.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.training import Example
from spacy.util import registry

from bcrf.io.atomic import write_text
from benchmarks.accuracy import CLUSTERS, PASSES, make_config, train_pipeline
from lab import ROOT
from lab.labeling_tasks import TASKS
from lab.machine import describe_machine, find_commit
from lab.options import add_options
from lab.processes import in_own_process
from lab.tables import mean_and_deviation, print_table
from spacy_bcrf.sparse.template_sets import SETS
from spacy_bcrf.training.combine import Combination, sum_pipelines

PARTS = ("chain", "hybrid", "network")
CHAINS = ("chain", "stacked")
STACKED_PARTS = ("vectors", "stacked")
"""The parts with --stacked. The first pipeline, whose vocabulary the sum has, needs the vectors."""
TAGS_TOO = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 96,
        "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE", "TAG"],
        "rows": [5000, 1000, 2500, 2500, 500],
        "include_static_vectors": False,
    },
    "encode": {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": 96,
        "depth": 4,
        "window_size": 1,
        "maxout_pieces": 3,
    },
}
"""A CNN that reads tags. The compiled one does not."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    parser.add_argument("--steps", type=int, default=3000, help="training steps of the networks")
    parser.add_argument("--stacked", action="store_true", help="with clusters, lists and vectors")
    parser.add_argument("--out", type=Path, default=ROOT / "training/combined", metavar="DIR")
    args = parser.parse_args()
    parts = STACKED_PARTS if args.stacked else PARTS
    rows = []
    for task in args.tasks:
        runs = [
            measure(args.out, args.corpora, parts, task, seed, args.steps)
            for seed in range(args.seeds)
        ]
        for name in (*parts, "sum"):
            row = {"corpus": task, "system": name}
            row |= {
                part: mean_and_deviation([run[name][part] for run in runs], 2)
                for part in ("dev", "test")
            }
            rows.append(row)
            print(*row.values(), sep="  ", flush=True)
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"{args.seeds} seed(s), mean ± deviation; networks: {args.steps} steps, chain: {PASSES} "
        "passes; dev: parts that have not learned from dev"
    )
    title = "Stacked clusters, lists and vectors" if args.stacked else "Combined pipelines"
    print_table(title, rows, notes, args.csv)


def measure(
    out: Path, corpora: Path, names: Sequence[str], task: str, seed: int, steps: int
) -> dict[str, dict[str, float]]:
    """Return the scores on dev and test of the parts of these names and of their sum."""
    chosen, cache = TASKS[task], out / "corpora"
    final = ["train", "dev"] if chosen.learns_dev else ["train"]
    held_out, trained = (
        {name: train_part(out, corpora, task, name, seed, steps, parts) for name in names}
        for parts in (["train"], final)
    )
    weights: list[float] = []
    scores: dict[str, dict[str, float]] = {name: {} for name in (*names, "sum")}
    for part, paths in (("dev", held_out), ("test", trained)):
        pipelines = {name: spacy.load(path) for name, path in paths.items()}
        first = pipelines[names[0]]
        examples = chosen.examples(first, chosen.read(corpora, part, cache, first.vocab))
        if "stacked" in names:
            chosen.add_predictions([eg.predicted for eg in examples], out / "resources")
        for name, nlp in pipelines.items():
            scores[name][part] = 100 * nlp.evaluate(copies(examples))[chosen.score]
        if part == "dev":
            pipes: list[Any] = [nlp.get_pipe(chosen.factory) for nlp in pipelines.values()]
            weights = Combination(pipes, examples).fit()
            shown = ", ".join(f"{name} {w:.2f}" for name, w in zip(names, weights, strict=True))
            print(f"{task}, seed {seed}: {shown}", flush=True)
        total = sum_pipelines(chosen.factory, pipelines, weights)
        scores["sum"][part] = 100 * total.evaluate(copies(examples))[chosen.score]
    return scores


def copies(examples: list[Example]) -> list[Example]:
    """Return examples without predictions."""
    return [Example(example.predicted.copy(), example.reference) for example in examples]


def train_part(
    out: Path, corpora: Path, task: str, part: str, seed: int, steps: int, parts: list[str]
) -> Path:
    """Return the folder of a trained part. Train it if there is none of this code and config."""
    length = PASSES if part in CHAINS else steps
    folder = out / f"{task}-{part}-{'+'.join(parts)}-{length}-{seed}"
    config = make_part_config(task, part, seed, length, parts, corpora, out / "corpora")
    origin = {"commit": find_commit(), "config": config.to_str()}
    saved = folder / "origin.json"
    if not saved.exists() or json.loads(saved.read_text()) != origin:
        in_own_process(train_pipeline, config, folder)
        write_text(saved, json.dumps(origin))
    # Averaged weights do not overfit early, and a dev part that was learned chooses nothing.
    is_last = part in CHAINS or "dev" in parts
    return folder / ("model-last" if is_last else "model-best")


def make_part_config(
    task: str, part: str, seed: int, length: int, parts: list[str], corpora: Path, cache: Path
) -> Any:
    """Return the training config of a part that learns from some parts of the corpus."""
    chosen = TASKS[task]
    brown = f"{chosen.templates}-brown"
    has_clusters = brown in SETS
    systems = {"network": "neural", "vectors": "neural"}
    systems["chain"] = "clusters" if has_clusters else "sparse"
    resources = cache.parent / "resources"
    config = make_config(task, systems.get(part, part), seed, length, corpora, cache, resources)
    model = config["components"][chosen.factory]["model"]
    if part == "hybrid" and has_clusters:
        model |= {"templates": brown, "clusters": {"brown": str(CLUSTERS)}}
    if systems.get(part) == "neural" and chosen.reads_tags:
        model["tok2vec"] = deepcopy(TAGS_TOO)
    if part == "vectors":
        name = "bio-vectors" if task == "jnlpba" else "vectors"
        config["initialize"]["vectors"] = str(resources / name)
        embed = model["tok2vec"].get("embed", {})
        name = "include_static_vectors" if embed else "pretrained_vectors"
        (embed or model["tok2vec"])[name] = True
    for name, read in (("train", parts), ("dev", ["dev"])):
        config["corpora"][name] = {
            "@readers": "spacy-bcrf.benchmarks.combined.v1",
            "task": task,
            "parts": read,
            "resources": str(resources) if part == "stacked" else None,
            "corpora": str(corpora),
            "cache": str(cache),
        }
    return config


@registry.readers("spacy-bcrf.benchmarks.combined.v1")
def make_reader(
    task: str, parts: list[str], corpora: str, cache: str, resources: str | None
) -> Callable[[Language], Iterator[Example]]:
    """Return a corpus reader for `spacy train`. resources: the folder of predictions."""

    def read(nlp: Language) -> Iterator[Example]:
        for part in parts:
            docs = TASKS[task].read(Path(corpora), part, Path(cache), nlp.vocab)
            examples = TASKS[task].examples(nlp, docs)
            if resources:
                TASKS[task].add_predictions([eg.predicted for eg in examples], Path(resources))
            yield from examples

    return read


if __name__ == "__main__":
    main()
