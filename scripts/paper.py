"""Trains and decodes as "Bregman Conditional Random Fields" (Corro et al. 2025) does, and prints
its Tables 1a-d with what is found.

    python scripts/paper.py pos --corpora DIR --output metrics/paper --scale small

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
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from paper_results import write_results
from paper_tasks import DECODED_BY, DECODERS, EXPERIMENTS, SCALES, make_config, objectives
from tqdm import tqdm

from spacy_bcrf.extras import require
from spacy_bcrf.files import replacing


class Run(NamedTuple):
    experiment: str
    corpus: str
    variant: str
    objective: str
    seed: int
    scale: str
    folder: Path
    """Of the experiment at this scale, where that of the run is."""
    transformer: str | None
    gpu: int

    @property
    def path(self) -> Path:
        name = f"{self.corpus}-{self.variant}-{self.objective}-{self.seed}"
        return self.folder / name.replace(" ", "_")

    @property
    def result(self) -> Path:
        return self.path / "result.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="*", help="corpora, such as en (default: all)")
    parser.add_argument("--steps", type=int, help="of training, in place of the scale's")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--transformer", metavar="DIR", help="model for entities (default: a CNN)")
    parser.add_argument("--gpu", type=int, default=-1)
    args = parser.parse_args()
    require("torch", "torch")
    require("matplotlib", "plot")
    if args.transformer:
        require("spacy_transformers", "transformers")
        if not (Path(args.transformer) / "config.json").is_file():
            sys.exit(f"{args.transformer}: no folder of a transformer, it has no config.json")
    task = EXPERIMENTS[args.experiment]
    if unknown := set(args.only or ()) - set(task.corpora):
        sys.exit(f"--only {', '.join(unknown)}: expected some of {', '.join(task.corpora)}")
    folder = args.output / args.scale / args.experiment
    names = args.only or list(task.corpora)
    for name in names:
        convert(args.experiment, name, args.corpora, folder)
    runs = [
        Run(
            args.experiment,
            name,
            variant,
            objective,
            seed,
            args.scale,
            folder,
            args.transformer,
            args.gpu,
        )
        for name in names
        for variant in task.variants
        for objective in objectives(variant)
        for seed in args.seeds
    ]
    perform(runs, args.jobs if args.gpu < 0 else 1, args.steps)
    print(write_results(folder, args.experiment, [(run[1:5], load(run)) for run in runs]))


def load(run: Run) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run.result.read_text())
    return result


def convert(experiment: str, name: str, corpora: Path, folder: Path) -> None:
    """The parts of a corpus to `.spacy` files, where that was not done."""
    corpus = EXPERIMENTS[experiment].corpora[name]
    for part, file in zip(("train", "dev", "test"), corpus.files, strict=True):
        output = folder / "corpus" / f"{name}-{part}.spacy"
        if not output.exists():
            output.parent.mkdir(parents=True, exist_ok=True)
            command = ["convert", str(corpora / file), str(output), "-l", corpus.lang]
            command += corpus.convert
            subprocess.run([sys.executable, "-m", "spacy", "bcrf", *command], check=True)
    partial = folder / "corpus" / f"{name}-partial"
    if "partial" in EXPERIMENTS[experiment].variants and not partial.exists():
        train = folder / "corpus" / f"{name}-train.spacy"
        command = ["mask", str(train), str(partial), "--by-label"]
        subprocess.run([sys.executable, "-m", "spacy", "bcrf", *command], check=True)


def perform(runs: list[Run], jobs: int, steps: int | None) -> None:
    """Those that have no result yet, each in a process of its own with one thread."""
    left = [run for run in runs if not run.result.exists()]
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        futures = {pool.submit(train_and_score, run, steps): run for run in left}
        progress = tqdm(
            as_completed(futures), total=len(runs), initial=len(runs) - len(left), desc="runs"
        )
        for future in progress:
            error = future.exception()
            if error is not None:
                pool.shutdown(cancel_futures=True)
                log = futures[future].path / "train.log"
                raise SystemExit(f"{futures[future].path.name}: {error}; see {log}")


def train_and_score(run: Run, steps: int | None) -> None:
    import spacy
    from spacy.cli.train import train
    from spacy.training import Corpus
    from spacy.util import load_model_from_config
    from thinc.api import Config

    task = EXPERIMENTS[run.experiment]
    scale = SCALES[run.scale]
    if steps:
        scale = SCALES[run.scale].__class__(**{**vars(scale), "steps": {run.experiment: steps}})
    files = {
        part: run.folder / "corpus" / f"{run.corpus}-{part}.spacy"
        for part in ("train", "dev", "test")
    }
    if run.variant == "partial":
        files["train"] = run.folder / "corpus" / f"{run.corpus}-partial"
    config = make_config(
        run.experiment,
        run.variant,
        run.objective,
        scale,
        run.seed,
        files,
        task.corpora[run.corpus].lang,
        run.transformer,
    )
    run.path.mkdir(parents=True, exist_ok=True)
    with (run.path / "train.log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        filled = load_model_from_config(Config(config), auto_fill=True).config
        filled.to_disk(run.path / "train.cfg")
        train(run.path / "train.cfg", run.path, use_gpu=run.gpu)
    nlp = spacy.load(run.path / "model-best")
    pipe: Any = nlp.get_pipe(task.component)
    scores = {}
    for part in ("dev", "test"):
        reader = Corpus(files[part], gold_preproc=run.experiment == "pos")
        for decoder in DECODED_BY[run.objective]:
            pipe.set_decoder(DECODERS[decoder])
            scores[f"{part} {decoder}"] = 100 * nlp.evaluate(list(reader(nlp)))[task.score]
    with replacing(run.result) as path:
        path.write_text(json.dumps(scores))


if __name__ == "__main__":
    main()
