"""Compare partial annotation with full annotation and with missing annotation taken as O.

    python -m experiments.partial.run corpus/jnlpba-ner metrics/partial/jnlpba --steps 2000

The corpus is a folder of train.spacy, dev.spacy and test.spacy. The command makes two kinds of
partial annotation from train.spacy. Either each document is annotated with one label only (Corro
et al. 2025), or a share of the entities is annotated and all other tokens are missing. Write
results.csv, results.md and curve.png to the output folder. A run with a stored result is not
repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from spacy.util import load_config

from experiments.corpora import annotate_one_label, read_corpus
from experiments.report import make_figure, markdown_table, save_figure, write_csv
from experiments.training import Run, Scores, perform
from spacy_bcrf.corpora.mask import drop_entities
from spacy_bcrf.io.atomic import write_text
from spacy_bcrf.io.extras import require
from spacy_bcrf.io.shards import write_all

ROOT = Path(__file__).resolve().parents[2]
HEADS = {"CRF": "spacy-bcrf.CRF.v1", "BCRF": "spacy-bcrf.BCRF.v1"}
# Either a head that learns from missing annotation, or a CRF that takes it as O.
METHODS = ("CRF", "BCRF", "missing as O")

Setting = tuple[str, float, str]
"""Kind of annotation, share of the entities that is annotated, and method."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--steps", type=int, default=2000, help="training steps of each run")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.25, 0.5, 0.75])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--config", type=Path, default=ROOT / "configs/ner.cfg")
    parser.add_argument("--gpu", type=int, default=-1)
    args = parser.parse_args(arguments)
    require("matplotlib", "plot")
    settings = plan(args.shares)
    runs = []
    for annotation, share, method in settings:
        name = f"{annotation}-{share:g}-{method}-{args.seed}".replace(" ", "_")
        config = configure(args, annotation, share, method)
        score = partial(evaluate, args.corpus)
        runs.append(Run(args.output / name, config, score, args.gpu))
    print(write_results(args.output, dict(zip(settings, perform(runs, jobs=1), strict=True))))


def plan(shares: list[float]) -> list[Setting]:
    """Return the settings of all runs."""
    settings = [("full", 1.0, head) for head in HEADS]
    settings += [("one label a document", 0.0, method) for method in METHODS]
    return settings + [("entities left out", s, m) for s in sorted(shares) for m in METHODS]


def configure(
    args: argparse.Namespace, annotation: str, share: float, method: str
) -> dict[str, Any]:
    """Return the training config of a run. Make its training corpus if it is missing."""
    config = load_config(args.config)
    config["paths"]["train"] = str(make_corpus(args, annotation, share, method))
    config["paths"]["dev"] = str(args.corpus / "dev.spacy")
    config["training"]["max_steps"] = args.steps
    config["training"]["eval_frequency"] = max(1, args.steps // 10)
    config["system"]["seed"] = args.seed
    ner = config["components"]["ner"]
    ner["model"]["head"]["@layers"] = HEADS.get(method, HEADS["CRF"])
    if annotation == "entities left out" and method in HEADS:
        # No token is annotated as O. The ratio of entity tokens, taken from dev, replaces O.
        dev = read_corpus(args.corpus / "dev.spacy")
        inside = sum(bool(token.ent_type) for doc in dev for token in doc)
        ratio = inside / sum(map(len, dev))
        ner["entity_ratio"] = {"ratio": ratio, "margin": 0.05, "weight": 10.0}
    return config


def make_corpus(args: argparse.Namespace, annotation: str, share: float, method: str) -> Path:
    """Return the file of a training corpus. Make it if it is missing."""
    source = args.corpus / "train.spacy"
    if annotation == "full":
        return source
    as_outside = method == "missing as O"
    kind = "O" if as_outside else "partial"
    path = args.output / f"{annotation}-{share:g}-{kind}-{args.seed}.spacy"
    if not path.exists():
        docs = read_corpus(source)
        if annotation == "one label a document":
            masked: list[Doc] = annotate_one_label(docs, args.seed)
            for doc in masked if as_outside else ():
                doc._.annotated_labels = None
        else:
            others = "outside" if as_outside else "missing"
            masked = list(drop_entities(docs, 1 - share, args.seed, others))
        write_all(masked, path)
    return path


def evaluate(corpus: Path, model: Path) -> Scores:
    """Return F of the entities on dev and test in percent."""
    import spacy
    from spacy.training import Corpus

    nlp = spacy.load(model)
    return {
        part: 100 * nlp.evaluate(Corpus(corpus / f"{part}.spacy")(nlp))["ents_f"]
        for part in ("dev", "test")
    }


def write_results(output: Path, results: dict[Setting, Scores]) -> str:
    """Write results.csv, results.md and curve.png. Return the table as Markdown."""
    rows = [["annotation", "entities annotated", "method", "dev F", "test F"]]
    for (annotation, share, method), scores in results.items():
        annotated = f"{share:.0%}" if share else "1 label of each document"
        figures = (f"{scores[part]:.2f}" for part in ("dev", "test"))
        rows.append([annotation, annotated, method, *figures])
    write_csv(output / "results.csv", rows)
    table = markdown_table(rows)
    write_text(output / "results.md", table)
    draw(output / "curve.png", results)
    return table


def draw(path: Path, results: dict[Setting, Scores]) -> None:
    """Draw F on test against the share of the entities that is annotated."""
    figure = make_figure(6, 4.5)
    axes = figure.subplots()
    for i, method in enumerate(METHODS):
        points = [
            (share, scores["test"])
            for (annotation, share, name), scores in results.items()
            if annotation == "entities left out" and name == method
        ]
        head = method if method in HEADS else "CRF"
        points.append((1.0, results["full", 1.0, head]["test"]))
        axes.plot(*zip(*points, strict=True), marker="o", color=f"C{i}", label=method)
        one_label = results["one label a document", 0.0, method]["test"]
        axes.axhline(one_label, color=f"C{i}", linestyle=":", label=f"{method}, one label each")
    axes.set_xlabel("share of the entities that is annotated")
    axes.set_ylabel("test F")
    axes.legend(fontsize="small")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
