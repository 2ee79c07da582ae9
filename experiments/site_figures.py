"""Draw the pictures of the README and of the documentation.

    python -m experiments.site_figures training/english/model-best

Writes docs/entities.svg, the entities of some texts with their probabilities, and the figures of
docs/mathematics.md. `make quickstart` trains the model.
"""

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import spacy
from spacy.tokens import Doc, Span

from bcrf.chain import BCRF, CRF, Potentials
from bcrf.io.atomic import write_text
from lab import ROOT

TEXTS = [
    "Barack Obama met Angela Merkel in Berlin.",
    "John Smith of Google moved to London.",
    "Karin Larsen works at the University of Vienna.",
]
COLORS = {"PER": "#7aa6e8", "ORG": "#f2b36b", "LOC": "#efe05a", "DATE": "#c49be0"}
# Pixels: a character of the monospaced text, a line of text with labels below, the margin.
CHARACTER, LINE, MARGIN = 9.6, 74, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of a pipeline with a bcrf_ner named ner")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", metavar="FOLDER")
    args = parser.parse_args()
    figures = args.output / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    write_text(args.output / "entities.svg", draw_entities(args.model, TEXTS))
    draw_lattice(figures / "lattice.svg")
    draw_projections(figures / "projections.svg")
    draw_chain(figures / "chain.svg")


def draw_entities(model: str, texts: list[str]) -> str:
    """Return an SVG of the predicted entities, with their probabilities and alternatives."""
    nlp = spacy.load(model)
    ner: Any = nlp.get_pipe("ner")
    docs = list(nlp.pipe(texts))
    width = 2 * MARGIN + max(map(len, texts)) * CHARACTER
    height = MARGIN + len(docs) * LINE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
        f' width="{width:.0f}" height="{height:.0f}" font-family="DejaVu Sans Mono, Menlo, '
        'Consolas, monospace" fill="#222">',
        "<title>Entities with probabilities</title>",
        '<rect width="100%" height="100%" rx="8" fill="#fff"/>',
    ]
    for i, (doc, candidates) in enumerate(zip(docs, ner.entity_candidates(docs), strict=True)):
        spans = {(c.span.start, c.span.end, c.span.label_): c for c in candidates}
        parts += draw_line(doc, list(spans.values()), MARGIN + i * LINE + 22)
    return "\n".join([*parts, "</svg>", ""])


def draw_line(doc: Doc, candidates: list, y: float) -> list[str]:
    """Return the SVG elements of one text: boxes of the entities, the text, labels below."""
    boxes, labels = [], []
    for ent in doc.ents:
        x, size = MARGIN + ent.start_char * CHARACTER, len(ent.text) * CHARACTER
        own = [c for c in candidates if overlap(c.span, ent)]
        own.sort(key=lambda c: (c.span != ent, -c.probability))
        color = COLORS.get(ent.label_, "#bbb")
        boxes.append(
            f'<rect x="{x - 4:.1f}" y="{y - 19:.1f}" width="{size + 8:.1f}" height="27" rx="4" '
            f'fill="{color}" fill-opacity="{0.25 + 0.75 * own[0].probability:.2f}"/>'
        )
        for row, candidate in enumerate(own[:2]):
            words = "" if same_place(candidate.span, ent) else f" {candidate.span.text}"
            text = f"{candidate.span.label_} {candidate.probability:.2f}{words}"
            labels.append(write(text, x - 4, y + 23 + 15 * row, 7.2, 12, row == 0))
    return [*boxes, write(doc.text, MARGIN, y, CHARACTER, 16), *labels]


def write(text: str, x: float, y: float, step: float, size: int, strong: bool = True) -> str:
    """Return a text element whose characters have the same width with any font."""
    color = "" if strong else ' fill="#777"'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" textLength="{len(text) * step:.1f}" '
        f'lengthAdjust="spacingAndGlyphs"{color} xml:space="preserve">{escape(text)}</text>'
    )


def overlap(a: Span, b: Span) -> bool:
    """Return whether the spans have a token in common."""
    return bool(a.start < b.end and b.start < a.end)


def same_place(a: Span, b: Span) -> bool:
    """Return whether the spans have the same boundaries."""
    return (a.start, a.end) == (b.start, b.end)


def draw_lattice(path: Path) -> None:
    """Draw a lattice of partial annotation: tags that are allowed, and the arcs between them."""
    words, tags = ["Ada", "Lovelace", "met", "Byron", "."], ["O", "B", "I"]
    # Known: Ada Lovelace is an entity, and the full stop is in none. BIO forbids I after O.
    allowed = ["B", "I", "OB", "OBI", "O"]
    figure, axis = new_figure(7, 2.6)
    for i, (here, after) in enumerate(pairwise(allowed)):
        for u in here:
            for v in after:
                if (u, v) != ("O", "I"):
                    ends = [-tags.index(u), -tags.index(v)]
                    axis.plot([i, i + 1], ends, color="#3f6fb5", linewidth=1.6, zorder=1)
    for i, here in enumerate(allowed):
        for row, tag in enumerate(tags):
            color = "#cfe0f7" if tag in here else "#f2f2f2"
            edge = "#3f6fb5" if tag in here else "#cccccc"
            axis.scatter(i, -row, s=480, c=color, edgecolors=edge, zorder=2)
            text = "black" if tag in here else "#aaaaaa"
            axis.text(i, -row, tag, ha="center", va="center", color=text, zorder=3)
    axis.set_xticks(range(len(words)), words)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.set_yticks([])
    axis.set_ylim(-2.5, 0.5)
    axis.spines[:].set_visible(False)
    save(figure, path)


def draw_projections(path: Path) -> None:
    """Draw the marginal violation by iteration, for plain and over-relaxed projections."""
    potentials = random_potentials(tags=9, length=200)
    iterations = np.arange(1, 31)
    figure, axis = new_figure(6, 3.2)
    for relaxation, name in ((1.0, "plain (the paper's)"), (1.25, "over-relaxed by 1.25")):
        violations = []
        for n_iter in iterations.tolist():
            q = BCRF(n_iter=n_iter, relaxation=relaxation).marginals(potentials, edges=True).edges
            assert q is not None
            into, out_of = q[:-2].sum(axis=1), q[1:-1].sum(axis=2)
            violations.append(np.abs(into - out_of).sum(axis=1).mean())
        axis.semilogy(iterations, violations, marker=".", label=name)
    axis.set_xlabel("iterations")
    axis.set_ylabel("mean L1 violation")
    axis.legend(frameon=False)
    save(figure, path)


def draw_chain(path: Path) -> None:
    """Draw the marginals of one tag by a CRF, a Bregman CRF and its chain, token by token."""
    potentials = random_potentials(tags=4, length=16)
    bregman = BCRF(n_iter=100)
    curves = {
        "CRF": (CRF().marginals(potentials), "o-"),
        "Bregman CRF": (bregman.marginals(potentials), "s-"),
        "CRF of BCRF.to_crf": (CRF().marginals(bregman.to_crf(potentials)), "k+"),
    }
    figure, axis = new_figure(6, 3.2)
    for name, (marginals, style) in curves.items():
        axis.plot(np.arange(1, 17), marginals.unary[:, 0], style, label=name, markersize=5)
    axis.set_xlabel("token")
    axis.set_ylabel("probability of tag 1")
    axis.set_ylim(0, 1)
    axis.legend(frameon=False)
    save(figure, path)


def random_potentials(tags: int, length: int) -> Potentials:
    rng = np.random.default_rng(0)
    unary, transitions = 2 * rng.normal(size=(length, tags)), 2 * rng.normal(size=(tags, tags))
    return Potentials(unary, transitions, np.array([length], "int32"))


def new_figure(width: float, height: float) -> tuple:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    # The same file for the same figure.
    pyplot.rcParams.update({"svg.hashsalt": "spacy-bcrf", "font.size": 10})
    return pyplot.subplots(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write a figure without its date."""
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
