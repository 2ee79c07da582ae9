"""Train, calibrate, evaluate and package `en_bcrf_sm`: English tags and entities.

    python -m experiments.model CORPUS OUTPUT

CORPUS is a folder such as assets/english. The components are sparse linear chains with Brown
clusters: small, quick to train, and without a network. OUTPUT gets the pipeline, its model card and
a wheel.
"""

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.cli.package import package
from spacy.cli.train import train
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus, Example

from bcrf import __version__
from bcrf.io.text import find_file
from lab import ROOT
from spacy_bcrf.analysis.calibrate import Calibration, measure_reliability
from spacy_bcrf.analysis.resampling import bootstrap_scores, percentile_interval
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.formats.conllu import read_conllu

LICENSE = "CC BY-SA 4.0"
SOURCES = [
    {
        "name": "UD English EWT r2.15",
        "url": "https://github.com/UniversalDependencies/UD_English-EWT",
        "license": LICENSE,
        "author": "Natalia Silveira et al.",
    },
    {
        "name": "UNER English EWT v1",
        "url": "https://github.com/UniversalNER/UNER_English-EWT",
        "license": LICENSE,
        "author": "Stephen Mayhew et al.",
    },
    {
        "name": "Brown clusters of spacy-lookups-data 1.0.5",
        "url": "https://github.com/explosion/spacy-lookups-data",
        "license": "MIT",
        "author": "Explosion",
    },
]
PIPES = {"tagger": "pos_acc", "ner": "ents_f"}
# The scores of the meta data, which model cards of the Hugging Face hub show.
SCORES = {"tagger": ["pos_acc"], "ner": ["ents_p", "ents_r", "ents_f"]}
DESCRIPTION = (
    "English part-of-speech tags and entities (PER, LOC, ORG) with calibrated probabilities. Both "
    "components are sparse linear chains of spacy-bcrf: no network, no vectors, no GPU."
)
PARTS = ("train", "dev", "test")
N_BOOTSTRAP = 1000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--build", default="wheel", help="as of `spacy package`, such as none")
    args = parser.parse_args(arguments)
    work = args.output / "work"
    work.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = (find_file(args.corpus / f"{part}.conllu"), read_conllu)
        convert([source], work / f"{part}.spacy", lang="en")
    nlp = train_pipeline(args.corpus, work, args.epochs)
    report = {name: calibrate(nlp, name, work) for name in PIPES}
    nlp.meta.update(describe(nlp, report))
    nlp.to_disk(args.output / "en_bcrf_sm")
    (args.output / "report.json").write_text(json.dumps(report, indent=2))
    shutil.rmtree(args.output / "package", ignore_errors=True)
    (args.output / "package").mkdir()
    package(
        args.output / "en_bcrf_sm",
        args.output / "package",
        name="bcrf_sm",
        version=__version__,
        create_sdist=False,
        create_wheel=args.build == "wheel",
        force=True,
    )
    for wheel in (args.output / "package").glob("*/dist/*.whl"):
        shutil.copy(wheel, args.output)
    print(nlp.meta["notes"])


def train_pipeline(corpus: Path, work: Path, epochs: int) -> Language:
    """Train both components, and return the best pipeline."""
    overrides: dict[str, Any] = {
        "paths.train": str(work / "train.spacy"),
        "paths.dev": str(work / "dev.spacy"),
        "paths.clusters": str(corpus / "clusters.tsv.xz"),
        "training.max_epochs": epochs,
        "components.tagger.attribute": "pos",
        "training.score_weights.tag_acc": None,
        "training.score_weights.pos_acc": 0.5,
    }
    train(ROOT / "configs/english.cfg", work / "training", overrides=overrides)
    return spacy.load(work / "training/model-best")


def calibrate(nlp: Language, name: str, work: Path) -> dict[str, Any]:
    """Fit the temperature of a component on dev, and measure it on test. RETURNS the figures."""
    pipe: Any = nlp.get_pipe(name)
    pipe.annotate = ["confidence"]
    parts = {part: list(Corpus(work / f"{part}.spacy")(nlp)) for part in PARTS[1:]}
    on = {part: Calibration(pipe, examples) for part, examples in parts.items()}
    temperature = on["dev"].fit()
    errors = [
        measure_reliability(on["test"].confidence(t), on["test"].correct).error
        for t in (1.0, temperature)
    ]
    pipe.temperature = temperature
    scores = nlp.evaluate(list(Corpus(work / "test.spacy")(nlp)))
    figures: dict[str, Any] = {
        "temperature": temperature,
        "ece_before": errors[0],
        "ece": errors[1],
    }
    docs = [example.reference for example in parts["test"]]
    figures["words_per_second"] = measure_speed(nlp, name, docs)
    figures["score"] = scores[PIPES[name]]
    figures["scores"] = {key: scores[key] for key in SCORES[name]}
    figures["interval"] = bootstrap(nlp, name, work)
    figures["by_label"] = scores["ents_per_type"] if name == "ner" else count_tags(nlp, work)
    return figures


def measure_speed(nlp: Language, name: str, docs: Sequence[Doc]) -> int:
    """Return the words/s of one component on one thread, the median of three runs."""
    seconds = []
    for _ in range(3):
        copies = [nlp.make_doc(doc.text) for doc in docs]
        start = time.perf_counter()
        list(nlp.get_pipe(name).pipe(copies))  # type: ignore[attr-defined]
        seconds.append(time.perf_counter() - start)
    return round(sum(map(len, docs)) / float(np.median(seconds)))


def bootstrap(nlp: Language, name: str, work: Path) -> list[float]:
    """Return the 95% interval of the score on test, by resampling sentences."""
    counts = np.array([count(name, example) for example in predict(nlp, name, work)])
    right, found, gold = counts.T
    of_docs = np.stack([gold, found, right, right], axis=-1)[:, None]
    samples = bootstrap_scores(of_docs, N_BOOTSTRAP)[:, 0, 2]
    return percentile_interval(samples).tolist()


def predict(nlp: Language, name: str, work: Path) -> list[Example]:
    """Return the test examples with predictions of one component."""
    examples = list(Corpus(work / "test.spacy")(nlp))
    docs = nlp.get_pipe(name).pipe(example.predicted for example in examples)  # type: ignore[attr-defined]
    return [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]


def find_units(name: str, example: Example) -> tuple[set, set]:
    """Return gold and predicted entities or tags, as spaCy's scorer compares them.

    A predicted token that is no gold token, or part of several, is left out.
    """
    if name == "ner":
        if not example.reference.has_annotation("ENT_IOB"):
            return set(), set()
        docs = (example.reference, example.predicted)
        ents = [{(e.start_char, e.end_char, e.label_) for e in doc.ents} for doc in docs]
        return ents[0], ents[1]
    place = example.alignment.x2y
    single = [token for token in example.predicted if place.lengths[token.i] == 1]
    found = {(int(place[token.i][0]), token.pos_) for token in single}
    return {(token.i, token.pos_) for token in example.reference}, found


def count(name: str, example: Example) -> tuple[int, int, int]:
    """Return the numbers of right, predicted and gold entities or tags."""
    gold, found = find_units(name, example)
    return len(gold & found), len(found), len(gold)


def count_tags(nlp: Language, work: Path) -> dict[str, dict[str, float]]:
    """Return precision, recall and F of each universal tag on test."""
    totals: dict[str, np.ndarray] = {}
    for example in predict(nlp, "tagger", work):
        gold, found = find_units("tagger", example)
        for i, tags in enumerate((gold & found, found, gold)):
            for _, tag in tags:
                totals.setdefault(tag, np.zeros(3))[i] += 1
    return {
        tag: {"p": float(r / max(f, 1)), "r": float(r / max(g, 1)), "f": float(2 * r / (f + g))}
        for tag, (r, f, g) in sorted(totals.items())
    }


def describe(nlp: Language, report: dict[str, Any]) -> dict[str, Any]:
    """Return the meta data of the pipeline: its model card."""
    rows = [
        f"| {name} | {PIPES[name]} {100 * x['score']:.2f} | {100 * x['interval'][0]:.2f} to "
        f"{100 * x['interval'][1]:.2f} | {x['ece_before']:.3f}, {x['ece']:.3f} | "
        f"{x['words_per_second']:,} |"
        for name, x in report.items()
    ]
    labels = [
        f"| {label} | {100 * s['p']:.1f} | {100 * s['r']:.1f} | {100 * s['f']:.1f} |"
        for x in report.values()
        for label, s in x["by_label"].items()
    ]
    notes = "\n".join(
        [
            "## Scores",
            "On the test parts, on spaCy's tokens, with the 95% interval of 1,000 bootstrap "
            "samples of sentences. ECE: expected calibration error, before and after calibration "
            "on dev.",
            "",
            "| component | score | interval | ECE | words/s, one thread |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "| label | P | R | F |",
            "|---|---|---|---|",
            *labels,
            "",
            "## Data and limits",
            "The tagger was trained on UD English EWT. The recognizer was trained on nine tenths "
            "of the dev part of UNER English EWT, because its train part was not at hand; the rest "
            "calibrates both. Both are web texts: blogs, newsgroups, emails, reviews and "
            "questions. Expect lower scores elsewhere. The Brown clusters are of a large text that "
            "is not known. The recognizer knows only persons, places and organizations.",
            "",
            f"Both corpora and this pipeline are under {LICENSE}, the clusters under MIT.",
        ]
    )
    performance = {key: value for x in report.values() for key, value in x["scores"].items()}
    performance["ents_per_type"] = report["ner"]["by_label"]
    return {
        "name": "bcrf_sm",
        "version": __version__,
        "description": DESCRIPTION,
        "author": "the developers of spacy-bcrf",
        "license": LICENSE,
        "sources": SOURCES,
        "notes": notes,
        "performance": performance,
    }


if __name__ == "__main__":
    main()
