"""Tables and figures of `experiments.paper.run`, with the figures of the paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from bcrf.io.atomic import write_text
from lab.figures import make_figure, save_figure
from lab.paper import DECODED_BY, EXPERIMENTS
from lab.tables import markdown_table, mean_and_deviation, write_csv

# Columns (corpus, variant) and rows (objective, decoder) of the paper's tables.
_COLUMNS = {
    "pos": [
        (corpus, layers)
        for layers in ("0 layers", "2 layers")
        for corpus in ("nl", "en", "fr", "de")
    ],
    "seg": [
        (corpus, layers)
        for layers in ("0 layers", "2 layers", "4 layers")
        for corpus in ("zh", "ja")
    ],
}
_ROWS: dict[str, dict[tuple[str, str], tuple[float, ...]]] = {
    "pos": {
        ("unstructured", "argmax"): (90.5, 85.8, 92.7, 89.0, 93.4, 90.8, 96.0, 94.0),
        ("CRF", "Viterbi"): (94.3, 91.3, 95.9, 94.1, 94.7, 91.9, 96.2, 94.3),
        ("CRF", "MF 5"): (93.8, 90.6, 95.5, 94.0, 94.4, 91.0, 95.8, 94.2),
        ("CRF", "MF 10"): (93.9, 90.7, 95.5, 94.1, 94.5, 91.0, 95.8, 94.2),
        ("CRF", "BCRF 5"): (94.4, 91.3, 95.9, 94.1, 94.7, 91.9, 96.2, 94.3),
        ("CRF", "BCRF 10"): (94.3, 91.3, 95.9, 94.1, 94.7, 91.9, 96.2, 94.3),
        ("MF", "Viterbi"): (93.7, 89.1, 95.8, 93.8, 94.6, 91.6, 96.3, 94.0),
        ("MF", "MF 5"): (94.3, 91.4, 95.9, 94.0, 94.7, 91.7, 96.3, 94.1),
        ("MF", "MF 10"): (94.3, 91.4, 95.9, 94.0, 94.7, 91.7, 96.3, 94.1),
        ("BCRF", "Viterbi"): (94.1, 91.1, 95.8, 94.0, 94.6, 91.8, 96.5, 94.4),
        ("BCRF", "BCRF 5"): (94.1, 91.1, 95.8, 94.0, 94.6, 91.8, 96.5, 94.4),
        ("BCRF", "BCRF 10"): (94.1, 91.1, 95.8, 94.0, 94.6, 91.8, 96.5, 94.4),
    },
    "seg": {
        ("unstructured", "argmax"): (47.3, 52.9, 62.0, 86.3, 64.9, 89.0),
        ("CRF", "Viterbi"): (84.2, 90.6, 84.3, 90.8, 84.3, 90.7),
        ("CRF", "MF 5"): (72.9, 76.5, 71.4, 75.4, 71.9, 75.1),
        ("CRF", "MF 10"): (74.6, 77.6, 72.2, 76.1, 72.5, 76.0),
        ("CRF", "BCRF 5"): (81.9, 88.7, 81.7, 88.7, 82.0, 88.5),
        ("CRF", "BCRF 10"): (83.7, 90.1, 83.7, 90.4, 83.8, 90.2),
        ("MF", "Viterbi"): (77.6, 79.6, 79.9, 82.3, 81.1, 83.5),
        ("MF", "MF 5"): (81.0, 88.7, 80.7, 88.8, 80.8, 89.0),
        ("MF", "MF 10"): (82.0, 89.1, 81.2, 89.1, 81.2, 89.3),
        ("BCRF", "Viterbi"): (83.6, 89.8, 84.5, 90.5, 84.0, 90.7),
        ("BCRF", "BCRF 5"): (82.2, 88.8, 83.3, 89.8, 82.8, 90.1),
        ("BCRF", "BCRF 10"): (83.2, 89.6, 84.2, 90.4, 83.8, 90.6),
    },
}
# The paper's CoNLL-2003 with BERT base has no counterpart here, so it has its own columns.
_CONLL = {
    ("unstructured", "argmax"): {"supervised": 91.6},
    ("CRF", "Viterbi"): {"supervised": 91.9, "partial": 90.5},
    ("CRF", "MF 5"): {"supervised": 91.7, "partial": 90.2},
    ("CRF", "MF 10"): {"supervised": 91.6, "partial": 90.3},
    ("CRF", "BCRF 5"): {"supervised": 91.9, "partial": 90.4},
    ("CRF", "BCRF 10"): {"supervised": 91.9, "partial": 90.5},
    ("MF", "Viterbi"): {"supervised": 91.7},
    ("MF", "MF 5"): {"supervised": 91.6},
    ("MF", "MF 10"): {"supervised": 91.6},
    ("BCRF", "Viterbi"): {"supervised": 91.7, "partial": 90.6},
    ("BCRF", "BCRF 5"): {"supervised": 91.6, "partial": 90.6},
    ("BCRF", "BCRF 10"): {"supervised": 91.7, "partial": 90.6},
}

Key = tuple[str, str, str, int]
"""Corpus, variant, objective and seed."""


def write_results(folder: Path, experiment: str, runs: Mapping[Key, dict[str, float]]) -> str:
    """Write results.csv, results.md and accuracy.png. Return the table as Markdown."""
    task = EXPERIMENTS[experiment]
    scores: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for (corpus, variant, objective, _), result in runs.items():
        for decoder in DECODED_BY[objective]:
            scores[corpus, variant, objective, decoder].append(result[f"test {decoder}"])
    means = {key: mean(values) for key, values in scores.items()}
    columns = list(dict.fromkeys((variant, corpus) for corpus, variant, *_ in means))
    columns.sort(key=lambda column: task.variants.index(column[0]))
    trained = {objective for _, _, objective, _ in runs}
    rows = [
        (objective, decoder)
        for objective, decoders in DECODED_BY.items()
        for decoder in decoders
        if objective in trained
    ]
    n_seeds = len({seed for *_, seed in runs})
    lines: list[list[str]] = [["trained", "decoded", *(f"{c}, {v}" for v, c in columns)]]
    if experiment == "ner":
        lines[0] += [f"paper: CoNLL-2003, {variant}" for variant in task.variants]
    for row in rows:
        cells = [_cell(experiment, scores, corpus, variant, row) for variant, corpus in columns]
        if experiment == "ner":
            cells += [_number(_CONLL.get(row, {}).get(variant)) for variant in task.variants]
        lines.append([*row, *cells])
    records: list[list[object]] = [
        ["corpus", "variant", "trained", "decoded", "score", "deviation", "paper", "seeds"]
    ]
    for (corpus, variant, objective, decoder), values in scores.items():
        paper = _number(_paper(experiment, corpus, variant, (objective, decoder)))
        deviation = f"{stdev(values):.2f}" if len(values) > 1 else ""
        figures = f"{mean(values):.2f}", deviation, paper, len(values)
        records.append([corpus, variant, objective, decoder, *figures])
    write_csv(folder / "results.csv", records)
    head = f"{task.title}; test, "
    head += f"mean ± deviation of {n_seeds} seeds" if n_seeds > 1 else "one seed"
    head += "; in brackets the paper's figure" if experiment != "ner" else ""
    table = f"{head}\n\n{markdown_table(lines)}"
    write_text(folder / "results.md", table)
    _draw(folder / "accuracy.png", experiment, means, columns, rows)
    return table


def _paper(experiment: str, corpus: str, variant: str, row: tuple[str, str]) -> float | None:
    columns = _COLUMNS.get(experiment, [])
    if (corpus, variant) not in columns or row not in _ROWS[experiment]:
        return None
    return _ROWS[experiment][row][columns.index((corpus, variant))]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _cell(
    experiment: str,
    scores: Mapping[Any, list[float]],
    corpus: str,
    variant: str,
    row: tuple[str, str],
) -> str:
    values = scores.get((corpus, variant, *row))
    if values is None:
        return ""
    paper = _paper(experiment, corpus, variant, row)
    return mean_and_deviation(values, digits=1) + (f" ({paper:.1f})" if paper else "")


def _draw(
    path: Path,
    experiment: str,
    means: dict[Any, float],
    columns: list[tuple[str, str]],
    rows: list[tuple[str, str]],
) -> None:
    """Draw a panel for each column, with a bar for each objective and decoder."""
    figure = make_figure(max(6, 3 * len(columns)), 4)
    colors = {objective: f"C{i}" for i, objective in enumerate(DECODED_BY)}
    for axes, (variant, corpus) in zip(
        figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True
    ):
        shown = [row for row in rows if (corpus, variant, *row) in means]
        values = [means[(corpus, variant, *row)] for row in shown]
        axes.barh(range(len(shown)), values, color=[colors[row[0]] for row in shown])
        papers = [_paper(experiment, corpus, variant, row) for row in shown]
        for i, paper in enumerate(papers):
            if paper is not None:
                axes.plot([paper, paper], [i - 0.4, i + 0.4], color="black")
        axes.set_yticks(range(len(shown)), [", ".join(row) for row in shown], fontsize="small")
        axes.invert_yaxis()
        values += [paper for paper in papers if paper is not None]
        axes.set_xlim(max(0, min(values) - 5), min(100, max(values) + 2))
        axes.set_title(f"{corpus}, {variant}", fontsize="medium")
    figure.suptitle("trained, decoded; test" + ("; line: the paper" if experiment != "ner" else ""))
    save_figure(figure, path)
