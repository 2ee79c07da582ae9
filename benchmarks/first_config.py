"""F of the config that `bcrf init` writes, beside the configs of `configs/`.

    python -m benchmarks.first_config --corpora DIR

All systems train as `spacy train` does, with the settings of their config and another order of the
documents for each seed. --out keeps the scores, so the command can be interrupted and resumed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import spacy
from spacy.cli.train import train
from spacy.tokens import DocBin
from spacy.training import Corpus
from spacy.util import load_config, load_model_from_config
from spacy.vocab import Vocab

from bcrf.io.atomic import write_text
from lab import ROOT
from lab.labeling_tasks import TASKS
from lab.machine import describe_machine
from lab.options import add_options
from lab.processes import use_one_thread
from lab.tables import mean_and_deviation, print_table
from spacy_bcrf.cli.init_cli import init_cli

SYSTEMS = ("init", "ner_sparse", "ner", "ner_hybrid")
"""What `init` writes without options, and the configs of the folder `configs`."""
CORPORA = ("wnut17", "jnlpba", "uner")
PARTS = ("train", "dev", "test")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--tasks", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "training/first-config", metavar="DIR")
    args = parser.parse_args()
    use_one_thread()
    rows = []
    for task in args.tasks:
        corpora = write_parts(args.corpora, task, args.out)
        for name in args.only:
            runs = [score(name, corpora, args.out / task, seed) for seed in range(args.seeds)]
            columns = (mean_and_deviation([100 * run[part] for run in runs]) for part in PARTS[1:])
            rows.append(
                {"corpus": task, "config": name, **dict(zip(PARTS[1:], columns, strict=True))}
            )
            print(*rows[-1].values(), sep="  ", flush=True)
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"entity F in percent, of the best step on dev; {args.seeds} seeds; init: without options"
    )
    print_table("the first config", rows, notes, args.csv)


def write_parts(corpora: Path, name: str, out: Path) -> dict[str, Path]:
    """Return the `.spacy` files of the parts of a corpus."""
    paths = {part: out / name / f"{part}.spacy" for part in PARTS}
    for part, path in paths.items():
        docs = TASKS[name].read(corpora, part, out / "converted", Vocab())
        path.parent.mkdir(parents=True, exist_ok=True)
        DocBin(docs=docs, store_user_data=True).to_disk(path)
    return paths


def score(name: str, corpora: dict[str, Path], out: Path, seed: int) -> dict[str, float]:
    """Return F on dev and test of the best step. Train unless there are scores for this config."""
    path = ROOT / f"configs/{name}.cfg"
    if name == "init":
        path = out / "init.cfg"
        init_cli(path, [corpora["train"]], corpora["dev"], pipes="ner", force=True)
    overrides = {f"paths.{part}": str(corpora[part]) for part in PARTS[:2]}
    filled = load_model_from_config(
        load_config(path, overrides | {"system.seed": seed}), auto_fill=True
    ).config
    text, folder = filled.to_str(), out / f"{name}-{seed}"
    kept = folder.with_suffix(".json")
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    if found.get("config") != text:
        filled.to_disk(folder.with_suffix(".cfg"))
        train(folder.with_suffix(".cfg"), folder)
        nlp = spacy.load(folder / "model-best")
        scores = {
            part: nlp.evaluate(list(Corpus(corpora[part])(nlp)))["ents_f"] for part in PARTS[1:]
        }
        found = {"config": text, "f": scores}
        write_text(kept, json.dumps(found))
    of_parts: dict[str, float] = found["f"]
    return of_parts


if __name__ == "__main__":
    main()
