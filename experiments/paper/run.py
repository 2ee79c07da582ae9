"""Reproduce Tables 1a-d of "Bregman Conditional Random Fields" (Corro et al. 2025).

    python -m experiments.paper.run pos --corpora DIR --output metrics/paper --scale small

Train every objective on every corpus, with every encoder depth and seed. Decode each model with
every decoder. A run with a stored result is not repeated, so the command can be interrupted and
resumed. Write results.csv, results.md and accuracy.png to OUTPUT/SCALE/EXPERIMENT.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from experiments.corpora import annotate_one_label, convert_parts, read_corpus
from experiments.paper.results import Key, write_results
from experiments.paper.tasks import (
    DECODED_BY,
    DECODERS,
    EXPERIMENTS,
    SCALES,
    make_config,
    objectives,
)
from experiments.training import Run, Scores, perform
from spacy_bcrf.io.extras import require
from spacy_bcrf.io.shards import write_all
from spacy_bcrf.io.text import CorpusError


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="*", help="corpora, such as en (default: all)")
    parser.add_argument("--variants", nargs="*", help='columns, such as "0 layers" (default: all)')
    parser.add_argument("--steps", type=int, default=0, help="training steps, 0: the scale's")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs in parallel")
    parser.add_argument("--transformer", metavar="DIR", help="for entities (default: a CNN)")
    parser.add_argument("--gpu", type=int, default=-1)
    args = parser.parse_args(arguments)
    if args.steps < 0:
        parser.error(f"--steps {args.steps}: expected 1 or more, or 0 for the scale's")
    task = EXPERIMENTS[args.experiment]
    names = choose("--only", args.only, task.corpora)
    variants = choose("--variants", args.variants, task.variants)
    require("matplotlib", "plot")
    if args.experiment != "ner" and variants != ["0 layers"]:
        require("torch", "torch")
    if args.transformer:
        require("spacy_transformers", "transformers")
        if not (Path(args.transformer) / "config.json").is_file():
            sys.exit(f"{args.transformer}: expected a folder of a transformer, with config.json")
    folder = args.output / args.scale / args.experiment
    scale = SCALES[args.scale]
    if args.steps:
        scale = replace(scale, steps={args.experiment: args.steps})
    keys: list[Key] = []
    runs: list[Run] = []
    for name in names:
        files = convert(args.experiment, name, args.corpora, folder)
        for variant in variants:
            for objective in objectives(variant):
                for seed in args.seeds:
                    setting = (args.experiment, variant, objective, scale, seed, files)
                    config = make_config(*setting, task.corpora[name].lang, args.transformer)
                    path = folder / f"{name}-{variant}-{objective}-{seed}".replace(" ", "_")
                    score = partial(evaluate, args.experiment, objective, files)
                    keys.append((name, variant, objective, seed))
                    runs.append(Run(path, config, score, args.gpu))
    scores = perform(runs, args.jobs if args.gpu < 0 else 1)
    print(write_results(folder, args.experiment, dict(zip(keys, scores, strict=True))))


def choose(option: str, wanted: list[str] | None, names: Iterable[str]) -> list[str]:
    """Return the wanted names, by default all. Exit with a message if one is unknown."""
    if unknown := set(wanted or ()) - set(names):
        sys.exit(f"{option} {', '.join(unknown)}: expected some of {', '.join(names)}")
    return wanted or list(names)


def convert(experiment: str, name: str, corpora: Path, folder: Path) -> dict[str, Path]:
    """Convert train, dev and test of a corpus where they are missing.

    An experiment with partial annotation also gets "partial": train with one label a document.
    """
    corpus = EXPERIMENTS[experiment].corpora[name]
    prefix = folder / "corpus" / f"{name}-"
    try:
        files = convert_parts(corpora, corpus.files, corpus.reader, corpus.lang, str(prefix))
    except (CorpusError, OSError) as error:
        sys.exit(str(error))
    if "partial" in EXPERIMENTS[experiment].variants:
        files["partial"] = Path(f"{prefix}partial.spacy")
        if not files["partial"].exists():
            write_all(annotate_one_label(read_corpus(files["train"]), seed=0), files["partial"])
    return files


def evaluate(experiment: str, objective: str, files: dict[str, Path], model: Path) -> Scores:
    """Return the scores of a pipeline on dev and test in percent, with each decoder."""
    import spacy
    from spacy.training import Corpus

    nlp = spacy.load(model)
    task = EXPERIMENTS[experiment]
    pipe: Any = nlp.get_pipe(task.component)
    scores = {}
    for part in ("dev", "test"):
        reader = Corpus(files[part], gold_preproc=experiment == "pos")
        for decoder in DECODED_BY[objective]:
            pipe.set_decoder(DECODERS[decoder])
            scores[f"{part} {decoder}"] = 100 * nlp.evaluate(list(reader(nlp)))[task.score]
    return scores


if __name__ == "__main__":
    main()
