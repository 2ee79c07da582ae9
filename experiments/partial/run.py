"""Compare partial annotation with full annotation and with missing annotation taken as O.

    python -m experiments.partial.run corpus/jnlpba-ner metrics/partial/jnlpba --steps 2000

The corpus is a folder with the train, dev and test files of an entity corpus: `.spacy`, CoNLL
columns or CoNLL-U. The command makes two kinds of partial annotation from the train part. Either
each document is annotated with one of the L labels only (Corro et al. 2025), or a share of the
entities is annotated and all other tokens are missing. A random 1/L of the documents with all
labels has as much annotation as one label a document. Write results.csv, results.md and curve.png
to the output folder. A run with a stored result is not repeated. Options such as
--training.dropout 0.2 override the training config.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from spacy.cli._util import parse_config_overrides
from spacy.tokens import Doc
from spacy.util import load_config

from bcrf.io.atomic import write_text
from bcrf.io.extras import require
from bcrf.io.text import CorpusError
from lab import ROOT
from lab.corpora import annotate_one_label, convert_parts, find_corpus, read_corpus
from lab.figures import make_figure, save_figure
from lab.masking import drop_entities
from lab.tables import markdown_table, mean_and_deviation, write_csv
from lab.training import Run, Scores, perform
from spacy_bcrf.readers.doc_files import write_all

HEADS = {"CRF": "spacy-bcrf.CRF.v1", "BCRF": "spacy-bcrf.BCRF.v1"}
# Either a head that learns from missing annotation, or a CRF that takes it as O.
METHODS = ("CRF", "BCRF", "missing as O")
# What of the train part is annotated, by kind of annotation. `entities left out` has a share.
KINDS = {
    "full": "100%",
    "one label a document": "1 of L labels in each document",
    "documents left out": "all labels in 1/L of the documents",
    "entities left out": "",
}

Setting = tuple[str, float, str]
"""Kind of annotation, share of the entities that is annotated (or 0), and method."""
Results = dict[Setting, list[Scores]]
"""The scores of each seed."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="further options override the training config, as in --training.dropout 0.2",
    )
    parser.add_argument("corpus", type=Path, help="folder with train, dev and test files")
    parser.add_argument("output", type=Path)
    parser.add_argument("--steps", type=int, default=2000, help="training steps of each run")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.25, 0.5, 0.75])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    parser.add_argument("--config", type=Path, default=ROOT / "configs/ner.cfg")
    parser.add_argument("--gpu", type=int, default=-1)
    args, overrides = parser.parse_known_args(arguments)
    if args.seeds < 1:
        parser.error(f"--seeds {args.seeds}: expected 1 or more")
    args.overrides = parse_config_overrides(overrides, env_var="")
    require("matplotlib", "plot")
    try:
        files = convert_parts(args.corpus, find_corpus(args.corpus), f"{args.output}/corpus-")
    except (CorpusError, OSError) as error:
        sys.exit(str(error))
    settings = [setting for setting in plan(args.shares) if setting[2] in args.methods]
    runs = []
    for annotation, share, method in settings:
        for seed in range(args.seeds):
            name = f"{annotation}-{share:g}-{method}-{seed}".replace(" ", "_")
            config = configure(args, files, annotation, share, method, seed)
            runs.append(Run(args.output / name, config, partial(evaluate, files), args.gpu))
    scores = iter(perform(runs, jobs=1))
    results = {setting: [next(scores) for _ in range(args.seeds)] for setting in settings}
    print(write_results(args.output, results))


def plan(shares: list[float]) -> list[Setting]:
    """Return the settings of all runs."""
    settings = [("full", 1.0, head) for head in HEADS]
    settings += [("one label a document", 0.0, method) for method in METHODS]
    settings += [("documents left out", 0.0, head) for head in HEADS]
    return settings + [("entities left out", s, m) for s in sorted(shares) for m in METHODS]


def configure(
    args: argparse.Namespace,
    files: dict[str, Path],
    annotation: str,
    share: float,
    method: str,
    seed: int,
) -> dict[str, Any]:
    """Return the training config of a run. Make its training corpus if it is missing."""
    config = load_config(args.config, overrides=args.overrides)
    config["paths"]["train"] = str(make_corpus(args.output, files, annotation, share, method, seed))
    config["paths"]["dev"] = str(files["dev"])
    config["training"]["max_steps"] = args.steps
    config["training"]["eval_frequency"] = max(1, args.steps // 10)
    config["system"]["seed"] = seed
    ner = config["components"]["ner"]
    ner["model"]["head"]["@layers"] = HEADS.get(method, HEADS["CRF"])
    if annotation == "entities left out" and method in HEADS:
        # No token is annotated as O. The ratio of entity tokens, taken from dev, replaces O.
        dev = read_corpus(files["dev"])
        inside = sum(bool(token.ent_type) for doc in dev for token in doc)
        ratio = inside / sum(map(len, dev))
        ner["entity_ratio"] = {"ratio": ratio, "margin": 0.05, "weight": 10.0}
    return config


def make_corpus(
    output: Path, files: dict[str, Path], annotation: str, share: float, method: str, seed: int
) -> Path:
    """Return the file of a training corpus. Make it if it is missing."""
    if annotation == "full":
        return files["train"]
    as_outside = method == "missing as O"
    kind = "O" if as_outside else "partial"
    path = output / f"{annotation}-{share:g}-{kind}-{seed}.spacy"
    if not path.exists():
        docs = read_corpus(files["train"])
        if annotation == "one label a document":
            masked: list[Doc] = annotate_one_label(docs, seed)
            for doc in masked if as_outside else ():
                doc._.annotated_labels = None
        elif annotation == "documents left out":
            n_labels = len({ent.label_ for doc in docs for ent in doc.ents})
            masked = random.Random(seed).sample(docs, max(1, len(docs) // n_labels))
        else:
            others = "outside" if as_outside else "missing"
            masked = list(drop_entities(docs, 1 - share, seed, others))
        write_all(masked, path)
    return path


def evaluate(files: dict[str, Path], model: Path) -> Scores:
    """Return F of the entities on dev and test in percent."""
    import spacy
    from spacy.training import Corpus

    nlp = spacy.load(model)
    return {
        part: 100 * nlp.evaluate(Corpus(files[part])(nlp))["ents_f"] for part in ("dev", "test")
    }


def write_results(output: Path, results: Results) -> str:
    """Write results.csv, results.md and curve.png. Return the table as Markdown."""
    rows = [["annotation", "annotated", "method", "dev F", "test F"]]
    for (annotation, share, method), scores in results.items():
        figures = (mean_and_deviation([one[part] for one in scores]) for part in ("dev", "test"))
        rows.append([annotation, KINDS[annotation] or f"{share:.0%}", method, *figures])
    write_csv(output / "results.csv", rows)
    table = markdown_table(rows)
    write_text(output / "results.md", table)
    draw(output / "curve.png", results)
    return table


def draw(path: Path, results: Results) -> None:
    """Draw F on test against the share of the entities that is annotated."""
    figure = make_figure(6, 4.5)
    axes = figure.subplots()
    means = {setting: mean(one["test"] for one in scores) for setting, scores in results.items()}
    for i, method in enumerate(METHODS):
        points = [
            (share, score)
            for (annotation, share, name), score in means.items()
            if annotation == "entities left out" and name == method
        ]
        full = "full", 1.0, method if method in HEADS else "CRF"
        if full in means:
            points.append((1.0, means[full]))
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", color=f"C{i}", label=method)
        one_label = means.get(("one label a document", 0.0, method))
        if one_label is not None:
            axes.axhline(one_label, color=f"C{i}", linestyle=":", label=f"{method}, one label each")
    axes.set_xlabel("share of the entities that is annotated")
    axes.set_ylabel("test F")
    axes.legend(fontsize="small")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
