"""Entities learned from partial annotation, against full annotation and holes taken as O.

    python -m experiments.partial.run corpus/jnlpba-ner metrics/partial/jnlpba --steps 2000

The corpus is a folder of train.spacy, dev.spacy and test.spacy. Two kinds of partial annotation are
made from its train part (`spacy bcrf mask`): each document annotated with one label only (as Corro
et al. 2025 have it), and a share of the entities left out. Writes results.csv, results.md and
curve.png to the output folder. A run whose result is there is not repeated.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.training import Corpus
from spacy.util import load_config

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.mask import drop_entities, one_label_each
from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.extras import require
from spacy_bcrf.io.shards import read_docs, write_all

ROOT = Path(__file__).resolve().parent.parent
HEADS = {"CRF": "spacy-bcrf.CRF.v1", "BCRF": "spacy-bcrf.BCRF.v1"}
# What is done about tokens that nothing was said of.
METHODS = ("CRF", "BCRF", "holes as O")

Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--steps", type=int, default=2000, help="of each training")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.25, 0.5, 0.75])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--config", type=Path, default=ROOT / "configs/ner.cfg")
    parser.add_argument("--gpu", type=int, default=-1)
    args = parser.parse_args()
    require("matplotlib", "plot")
    set_extensions()
    results = []
    for annotation, share, method in plan(args.shares):
        results.append(run(args, annotation, share, method))
        write(args.output, results)
    print((args.output / "results.md").read_text())


def plan(shares: list[float]) -> list[tuple[str, float, str]]:
    """Annotation, share of the entities that is annotated, and method of every run."""
    runs = [("full", 1.0, head) for head in HEADS]
    runs += [("one label a document", 0.0, method) for method in METHODS]
    return runs + [("entities left out", share, m) for share in sorted(shares) for m in METHODS]


def run(args: argparse.Namespace, annotation: str, share: float, method: str) -> Result:
    """Trains and scores unless that was done; a folder for each run."""
    name = f"{annotation}-{share:g}-{method}-{args.seed}".replace(" ", "_")
    folder = args.output / name
    done = folder / "result.json"
    train = prepare(args, annotation, share, method)
    config = configure(args, train, annotation, method)
    settings = folder / "train.cfg"
    # Other settings are another run, whose result is not there.
    if not done.exists() or settings.read_text() != config.to_str():
        print(f"--- {name}", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        done.unlink(missing_ok=True)
        config.to_disk(settings)
        command = ["train", settings, "--output", folder, "--gpu-id", args.gpu]
        subprocess.run([sys.executable, "-m", "spacy", *map(str, command)], check=True)
        scores = {}
        for model in ("model-best", "model-last"):
            nlp = spacy.load(folder / model)
            for part in ("dev", "test"):
                examples = Corpus(args.corpus / f"{part}.spacy")(nlp)
                scores[f"{part} {model}"] = 100 * nlp.evaluate(examples)["ents_f"]
        with replacing(done) as part_path:
            part_path.write_text(json.dumps(scores))
    scores = json.loads(done.read_text())
    return {
        "annotation": annotation,
        "entities annotated": f"{share:.0%}" if share else "1 label of each document",
        "method": method,
        "dev F": scores["dev model-best"],
        "test F": scores["test model-best"],
        "share": share,
    }


def prepare(args: argparse.Namespace, annotation: str, share: float, method: str) -> Path:
    """The corpus to train on; made if it is not there."""
    source = args.corpus / "train.spacy"
    if annotation == "full":
        return source
    holes = method == "holes as O"
    kind = "O" if holes else "partial"
    path = args.output / f"{annotation}-{share:g}-{kind}-{args.seed}.spacy"
    if not path.exists():
        vocab = spacy.blank("xx").vocab
        docs = list(read_docs(source, vocab))
        if annotation == "one label a document":
            labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
            masked: list[Doc] = [doc for _, doc in one_label_each(docs, labels, args.seed)]
            for doc in masked if holes else ():
                doc._.annotated_labels = None
        else:
            others = "outside" if holes else "missing"
            masked = list(drop_entities(docs, 1 - share, args.seed, others))
        write_all(masked, path)
    return path


def configure(args: argparse.Namespace, train: Path, annotation: str, method: str) -> Any:
    config = load_config(args.config)
    config["paths"]["train"] = str(train)
    config["paths"]["dev"] = str(args.corpus / "dev.spacy")
    config["training"]["max_steps"] = args.steps
    config["training"]["eval_frequency"] = max(1, args.steps // 10)
    config["system"]["seed"] = args.seed
    ner = config["components"]["ner"]
    ner["model"]["head"]["@layers"] = HEADS.get(method, HEADS["CRF"])
    if annotation == "entities left out" and method in HEADS:
        # Nothing says where no entity is; dev says how many tokens are in one.
        dev = list(read_docs(args.corpus / "dev.spacy", spacy.blank("xx").vocab))
        inside = sum(bool(token.ent_type) for doc in dev for token in doc)
        ratio = inside / sum(map(len, dev))
        ner["entity_ratio"] = {"ratio": ratio, "margin": 0.05, "weight": 10.0}
    return config


def write(output: Path, results: list[Result]) -> None:
    columns = [key for key in results[0] if key != "share"]
    rows = [
        [f"{row[key]:.2f}" if isinstance(row[key], float) else row[key] for key in columns]
        for row in results
    ]
    with replacing(output / "results.csv") as path, path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    lines = [columns, ["---"] * len(columns), *rows]
    with replacing(output / "results.md") as path:
        path.write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))
    draw(output / "curve.png", results)


def draw(path: Path, results: list[Result]) -> None:
    """F on test against the share of the entities that is annotated."""
    figure = require("matplotlib.figure", "plot").Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    colors = dict(zip(METHODS, ("C0", "C1", "C2"), strict=True))
    full = {row["method"]: row["test F"] for row in results if row["annotation"] == "full"}
    for method, color in colors.items():
        whole = full.get(method, full["CRF"])
        points = [
            (row["share"], row["test F"])
            for row in results
            if row["annotation"] == "entities left out" and row["method"] == method
        ]
        axes.plot(*zip(*points, (1.0, whole), strict=True), marker="o", color=color, label=method)
        for row in results:
            if row["annotation"] == "one label a document" and row["method"] == method:
                axes.axhline(
                    row["test F"], color=color, linestyle=":", label=f"{method}, one label each"
                )
    axes.set_xlabel("share of the entities that is annotated")
    axes.set_ylabel("test F")
    axes.legend(fontsize="small")
    with replacing(path) as part:
        figure.savefig(part, format="png", dpi=120)


if __name__ == "__main__":
    main()
