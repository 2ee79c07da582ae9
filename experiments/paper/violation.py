"""Marginal violation of Bregman projections by the number of iterations.

    python -m experiments.paper.violation metrics/paper/small/seg

The marginal violation of a token is the L1 distance between two tag marginals: one from the arcs
into the token, one from the arcs out of it. An iteration projects the tokens of one parity, as the
paper's k counts. The command computes its mean and maximum over 50 test
documents, for each model that `experiments.paper.run` trained with CRF or BCRF. Projections are
plain, as in the paper (Corro et al. 2025, Algorithm 1), and over-relaxed by 1.25.
Write violation.csv and violation.png to the folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.training import Corpus
from tqdm import tqdm

from bcrf.chain import BCRF, Potentials
from bcrf.io.extras import require
from lab.figures import make_figure, save_figure
from lab.tables import write_csv

ITERATIONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
RELAXATIONS = {"plain": 1.0, "over-relaxed": 1.25}
N_DOCS = 50
Curves = dict[tuple[str, str], list[tuple[float, float]]]
"""Mean and maximum by iterations, by model and kind of projection."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="results of experiments.paper.run")
    folder = parser.parse_args(arguments).folder
    models = [
        path
        for name in ("CRF", "BCRF")
        for path in sorted(folder.glob(f"*-{name}-[0-9]*/model-best"))
    ]
    if not models:
        parser.error(f"{folder}: no model of CRF or BCRF; run experiments.paper.run first")
    curves: Curves = {}
    for model in tqdm(models, "models"):
        potentials = predict(model, folder / "corpus")
        for title, relaxation in RELAXATIONS.items():
            curves[model.parent.name, title] = [
                violation(potentials, BCRF(n, relaxation=relaxation)) for n in ITERATIONS
            ]
    rows: list[list[object]] = [["model", "projections", "iterations", "mean", "largest"]]
    for key, points in curves.items():
        for n, (average, largest) in zip(ITERATIONS, points, strict=True):
            rows.append([*key, n, f"{average:.3g}", f"{largest:.3g}"])
    write_csv(folder / "violation.csv", rows)
    draw(folder / "violation.png", curves)


def predict(model: Path, corpora: Path) -> Potentials:
    """Return the model's potentials for the first test documents of its corpus."""
    nlp = spacy.load(model)
    pipe: Any = nlp.get_pipe(nlp.pipe_names[-1])
    corpus = corpora / f"{model.parent.name.split('-')[0]}-test.spacy"
    # Like training: the tagger sees the words of the corpus, as in the paper.
    reader = Corpus(corpus, gold_preproc=pipe.name == "bcrf_tagger")
    docs = [example.predicted for example in islice(reader(nlp), N_DOCS)]
    for name in nlp.pipe_names[:-1]:
        before: Any = nlp.get_pipe(name)
        docs = list(before.pipe(docs))
    potentials: Potentials = pipe.model.predict(docs)
    return potentials


def violation(potentials: Potentials, inference: BCRF) -> tuple[float, float]:
    """Return the mean and maximum violation over tokens with arcs on both sides."""
    edges = inference.marginals(potentials, edges=True).edges
    assert edges is not None
    inner = np.intersect1d(potentials.inner_edges, potentials.inner_edges + 1)
    gaps = np.abs(edges[inner].sum(axis=2) - edges[inner - 1].sum(axis=1)).sum(axis=1)
    return float(gaps.mean()), float(gaps.max())


def draw(path: Path, curves: Curves) -> None:
    """Draw the mean violation against the iterations, a color for each model."""
    figure = make_figure(8, 4.5)
    axes = figure.subplots()
    styles = dict(zip(RELAXATIONS, ("--", "-"), strict=True))
    models = list(dict.fromkeys(model for model, _ in curves))
    colors = require("matplotlib", "plot").colormaps["turbo"]
    for i, model in enumerate(models):
        # Spread any number of models over the whole color map.
        color = colors((i + 0.5) / len(models))
        for title, style in styles.items():
            means = [average for average, _ in curves[model, title]]
            label = model.replace("_", " ") if style == "-" else None
            axes.loglog(ITERATIONS, means, style, color=color, label=label)
    for title, style in styles.items():
        axes.plot([], [], style, color="black", label=title)
    axes.set_xlabel("iterations")
    axes.set_ylabel("marginal violation, mean over tokens (L1)")
    figure.legend(loc="outside right upper", fontsize="x-small")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
