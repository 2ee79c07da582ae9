"""How far the marginals of Bregman projections are from consistent, by iterations.

    python -m experiments.paper.violation metrics/paper/small/seg

For the models that experiments/paper/run.py trained with CRF and BCRF: the L1 distance between the tag
marginals by the edges into a token and by those out of it, mean and largest over the tokens of 50
test documents; projections plain, as in the paper (Corro et al. 2025, Algorithm 1), and
over-relaxed, as they are by default. Writes violation.csv and violation.png to the folder.
"""

from __future__ import annotations

import csv
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.training import Corpus
from tqdm import tqdm

from spacy_bcrf.chain import BCRF, Potentials
from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.extras import require

ITERATIONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
RELAXATIONS = {"plain": 1.0, "over-relaxed": BCRF().relaxation}
N_DOCS = 50
Curves = dict[tuple[str, str], list[tuple[float, float]]]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    models = [
        path
        for name in ("CRF", "BCRF")
        for path in sorted(folder.glob(f"*-{name}-[0-9]*/model-best"))
    ]
    if not models:
        sys.exit(
            f"{folder}: no models trained with CRF or BCRF; run experiments/paper/run.py first"
        )
    curves: Curves = {}
    for model in tqdm(models, "models"):
        potentials = predict(model, folder / "corpus")
        for title, relaxation in RELAXATIONS.items():
            curves[model.parent.name, title] = [
                violation(potentials, BCRF(n, relaxation=relaxation)) for n in ITERATIONS
            ]
    with replacing(folder / "violation.csv") as path, path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "projections", "iterations", "mean", "largest"])
        for key, points in curves.items():
            for n, (average, largest) in zip(ITERATIONS, points, strict=True):
                writer.writerow([*key, n, f"{average:.3g}", f"{largest:.3g}"])
    draw(folder / "violation.png", curves)


def predict(model: Path, corpora: Path) -> Potentials:
    """Of the test documents of the corpus that the model's folder is named after."""
    nlp = spacy.load(model)
    pipe: Any = nlp.get_pipe(nlp.pipe_names[-1])
    corpus = corpora / f"{model.parent.name.split('-')[0]}-test.spacy"
    # Tokens as in training: the paper's tags are of the corpus's words.
    reader = Corpus(corpus, gold_preproc=pipe.name == "bcrf_tagger")
    docs = [example.predicted for example in islice(reader(nlp), N_DOCS)]
    for _, before in nlp.pipeline[:-1]:
        docs = list(before.pipe(docs))
    potentials: Potentials = pipe.model.predict(docs)
    return potentials


def violation(potentials: Potentials, inference: BCRF) -> tuple[float, float]:
    """Mean and largest L1 distance at tokens that have one before and one after them."""
    edges = inference.marginals(potentials, edges=True).edges
    assert edges is not None
    inner = np.intersect1d(potentials.inner_edges, potentials.inner_edges + 1)
    gaps = np.abs(edges[inner].sum(axis=2) - edges[inner - 1].sum(axis=1)).sum(axis=1)
    return float(gaps.mean()), float(gaps.max())


def draw(path: Path, curves: Curves) -> None:
    matplotlib = require("matplotlib", "plot")
    figure = require("matplotlib.figure", "plot").Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    styles = dict(zip(RELAXATIONS, ("--", "-"), strict=True))
    models = list(dict.fromkeys(model for model, _ in curves))
    for i, model in enumerate(models):
        # Colours from one end of the map to the other, however many models there are.
        color = matplotlib.colormaps["turbo"]((i + 0.5) / len(models))
        for title, style in styles.items():
            means = [average for average, _ in curves[model, title]]
            label = model.replace("_", " ") if style == "-" else None
            axes.loglog(ITERATIONS, means, style, color=color, label=label)
    for title, style in styles.items():
        axes.plot([], [], style, color="black", label=title)
    axes.set_xlabel("iterations")
    axes.set_ylabel("marginal violation, mean over tokens (L1)")
    figure.legend(loc="outside right upper", fontsize="x-small")
    with replacing(path) as part:
        figure.savefig(part, format="png", dpi=120)


if __name__ == "__main__":
    main()
