"""F on dev of the config that `bcrf init` writes, beside the configs of `configs/`.

    python -m benchmarks.first_config --corpora DIR

All systems train as `spacy train` does, with the settings of their config. --out keeps the scores,
so the command can be interrupted and resumed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from spacy.cli.train import train
from spacy.util import load_config, load_model_from_config

from benchmarks.common import ROOT, add_options, describe_machine, print_table
from experiments.corpora import convert_parts
from experiments.paper.tasks import EXPERIMENTS
from experiments.training import use_one_thread
from spacy_bcrf.cli.convert import convert_cli
from spacy_bcrf.cli.init import init_cli
from spacy_bcrf.io.atomic import write_text

SYSTEMS = ("init", "ner_sparse", "ner", "ner_hybrid")
"""What `init` writes without options, and the configs of the folder `configs`."""
CORPORA = ("wnut", "jnlpba", "uner")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--tasks", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--out", type=Path, default=ROOT / "training/first-config", metavar="DIR")
    args = parser.parse_args()
    use_one_thread()
    rows = []
    for task in args.tasks:
        corpora = read_parts(args.corpora, task, args.out / task)
        scores = {name: score(name, corpora, args.out / task) for name in args.only}
        rows.append({"corpus": task, **{name: f"{100 * f:.2f}" for name, f in scores.items()}})
        print(*rows[-1].values(), sep="  ", flush=True)
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        "entity F on dev in percent, of the best step; seed 0; init: without options"
    )
    print_table("the first config", rows, notes, args.csv)


def read_parts(corpora: Path, task: str, out: Path) -> dict[str, Path]:
    """Return the `.spacy` files of train and dev."""
    if task != "uner":
        return convert_parts(corpora, EXPERIMENTS["ner"].corpora[task], f"{out}/")
    paths = {part: out / f"{part}.spacy" for part in ("train", "dev")}
    for part, path in paths.items():
        if not path.exists():
            convert_cli([ROOT / f"assets/english/{part}.conllu"], path, lang="en")
    return paths


def score(name: str, corpora: dict[str, Path], out: Path) -> float:
    """Return F of the best step on dev. Train unless there is a score for this config."""
    path = out / f"{name}.cfg"
    if name == "init":
        init_cli(path, corpora["train"], corpora["dev"], pipes="ner")
    else:
        path = ROOT / f"configs/{name}.cfg"
    overrides = {f"paths.{part}": str(corpora[part]) for part in ("train", "dev")}
    filled = load_model_from_config(load_config(path, overrides), auto_fill=True).config
    text, kept = filled.to_str(), out / f"{name}.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    if found.get("config") != text:
        filled.to_disk(out / f"{name}.filled.cfg")
        train(out / f"{name}.filled.cfg", out / name)
        meta = json.loads((out / name / "model-best/meta.json").read_text())
        found = {"config": text, "f": meta["performance"]["ents_f"]}
        write_text(kept, json.dumps(found))
    return float(found["f"])


if __name__ == "__main__":
    main()
