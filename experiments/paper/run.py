"""Trains and decodes as in "Bregman Conditional Random Fields" (Corro et al. 2025), Tables 1a-d.

    python -m experiments.paper.run pos --corpora DIR --output metrics/paper --scale small

Trains with every objective, for every corpus, depth of the encoder and seed, and decodes each model
in all ways. A run whose result is there is not repeated, so this can be stopped and started again.
Writes results.csv, results.md and figures to OUTPUT/SCALE/EXPERIMENT.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from paper_results import write_results
from tqdm import tqdm

from experiments.paper.tasks import (
    DECODED_BY,
    DECODERS,
    EXPERIMENTS,
    SCALES,
    make_config,
    objectives,
)
from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.extras import require


class Run(NamedTuple):
    """folder: of the experiment at this scale, where that of the run is. config: all but the
    defaults of the training config."""

    experiment: str
    corpus: str
    variant: str
    objective: str
    seed: int
    folder: Path
    files: dict[str, Path]
    config: dict[str, Any]
    gpu: int

    @property
    def path(self) -> Path:
        name = f"{self.corpus}-{self.variant}-{self.objective}-{self.seed}"
        return self.folder / name.replace(" ", "_")

    def load(self) -> dict[str, float] | None:
        """Its scores, or None if it was not done, or with other settings."""
        path = self.path / "result.json"
        result = json.loads(path.read_text()) if path.exists() else {}
        # As JSON has it, in which a tuple is a list.
        if result.get("config") != json.loads(json.dumps(self.config)):
            return None
        scores: dict[str, float] = result["scores"]
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="*", help="corpora, such as en (default: all)")
    parser.add_argument("--variants", nargs="*", help='columns, such as "0 layers" (default: all)')
    parser.add_argument("--steps", type=int, default=0, help="of training (default: the scale's)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--transformer", metavar="DIR", help="model for entities (default: a CNN)")
    parser.add_argument("--gpu", type=int, default=-1)
    args = parser.parse_args()
    if args.steps < 0:
        parser.error(f"--steps must be at least 1, or 0 for the scale's, got {args.steps}")
    task = EXPERIMENTS[args.experiment]
    names = choose("--only", args.only, task.corpora)
    variants = choose("--variants", args.variants, task.variants)
    require("matplotlib", "plot")
    if args.experiment != "ner" and variants != ["0 layers"]:
        require("torch", "torch")
    if args.transformer:
        require("spacy_transformers", "transformers")
        if not (Path(args.transformer) / "config.json").is_file():
            sys.exit(f"{args.transformer}: no folder of a transformer, it has no config.json")
    folder = args.output / args.scale / args.experiment
    scale = SCALES[args.scale]
    if args.steps:
        scale = replace(scale, steps={args.experiment: args.steps})
    runs = []
    for name in names:
        files = convert(args.experiment, name, args.corpora, folder)
        for variant in variants:
            for objective in objectives(variant):
                for seed in args.seeds:
                    setting = (args.experiment, variant, objective, scale, seed, files)
                    config = make_config(*setting, task.corpora[name].lang, args.transformer)
                    key = (args.experiment, name, variant, objective, seed)
                    runs.append(Run(*key, folder, files, config, args.gpu))
    perform(runs, args.jobs if args.gpu < 0 else 1)
    print(write_results(folder, args.experiment, [(run[1:5], run.load() or {}) for run in runs]))


def choose(option: str, wanted: list[str] | None, names: Iterable[str]) -> list[str]:
    """Those that are wanted, all by default."""
    if unknown := set(wanted or ()) - set(names):
        sys.exit(f"{option} {', '.join(unknown)}: expected some of {', '.join(names)}")
    return wanted or list(names)


def convert(experiment: str, name: str, corpora: Path, folder: Path) -> dict[str, Path]:
    """The parts of a corpus as `.spacy` files, made where they are missing; and, in a folder of
    files, train as if each document had been annotated with one label only."""
    corpus = EXPERIMENTS[experiment].corpora[name]
    files = {}
    for part, file in zip(("train", "dev", "test"), corpus.files, strict=True):
        files[part] = folder / "corpus" / f"{name}-{part}.spacy"
        if not files[part].exists():
            files[part].parent.mkdir(parents=True, exist_ok=True)
            command = ["convert", str(corpora / file), str(files[part]), "-l", corpus.lang]
            command += corpus.convert
            run_bcrf(*command)
    if "partial" in EXPERIMENTS[experiment].variants:
        files["partial"] = folder / "corpus" / f"{name}-partial"
        if not files["partial"].exists():
            command = ["mask", str(files["train"]), str(files["partial"]), "--by-label"]
            run_bcrf(*command)
    return files


def run_bcrf(*command: str) -> None:
    """A command of `spacy bcrf`, which says itself what is wrong."""
    if subprocess.run([sys.executable, "-m", "spacy", "bcrf", *command]).returncode:
        sys.exit(1)


def perform(runs: list[Run], jobs: int) -> None:
    """Those that have no result yet, each in a process of its own with one thread."""
    left = [run for run in runs if run.load() is None]
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        # The deepest, which take longest, first: none is left to run alone at the end.
        futures = {pool.submit(train_and_score, run): run for run in reversed(left)}
        progress = tqdm(
            as_completed(futures), total=len(runs), initial=len(runs) - len(left), desc="runs"
        )
        for future in progress:
            error = future.exception()
            if error is not None:
                pool.shutdown(cancel_futures=True)
                log = futures[future].path / "train.log"
                raise SystemExit(f"{futures[future].path.name}: {error}; see {log}")


def train_and_score(run: Run) -> None:
    import spacy
    from spacy.cli.train import train
    from spacy.training import Corpus
    from spacy.util import load_model_from_config
    from thinc.api import Config

    run.path.mkdir(parents=True, exist_ok=True)
    with (run.path / "train.log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        filled = load_model_from_config(Config(run.config), auto_fill=True).config
        filled.to_disk(run.path / "train.cfg")
        train(run.path / "train.cfg", run.path, use_gpu=run.gpu)
    nlp = spacy.load(run.path / "model-best")
    task = EXPERIMENTS[run.experiment]
    pipe: Any = nlp.get_pipe(task.component)
    scores = {}
    for part in ("dev", "test"):
        reader = Corpus(run.files[part], gold_preproc=run.experiment == "pos")
        for decoder in DECODED_BY[run.objective]:
            pipe.set_decoder(DECODERS[decoder])
            scores[f"{part} {decoder}"] = 100 * nlp.evaluate(list(reader(nlp)))[task.score]
    with replacing(run.path / "result.json") as path:
        path.write_text(json.dumps({"config": run.config, "scores": scores}))


if __name__ == "__main__":
    main()
