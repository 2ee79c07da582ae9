"""The figures and tables of the SAPO experiments, from what experiments/sapo/run.py measured.

    python -m experiments.sapo.figures metrics/sapo metrics/sapo/figures

Five figures as in the paper, each with a panel for each task: accuracy by pass of the probabilistic
methods and networks, of the perceptrons, and of MIRA; mean absolute weight by pass; seconds a pass.
results.csv and results.md: where each method ends, with a paired t-test of SAPO against it over the
orders of the sentences, and whether its weights level off. Convergence.png, if convergence.csv is
there: the gradient gap against n.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.sapo.tasks import TASKS
from spacy_bcrf.io.atomic import write_text
from spacy_bcrf.io.extras import require

require("matplotlib", "bench").use("Agg")
ttest_rel = require("scipy.stats", "bench").ttest_rel
plt = require("matplotlib.pyplot", "bench")

SAPO = "SAPO"
PERCEPTRONS = ("perceptron", "averaged perceptron")
MIRAS = ("MIRA", "averaged MIRA", "n-best MIRA", "averaged n-best MIRA")
GRADIENTS = ("CRF", "averaged CRF", "averaged SAPO", "BiLSTM", "BiLSTM-CRF")
FIGURES = {
    "accuracy-probabilistic": ("score", (SAPO, *GRADIENTS)),
    "accuracy-perceptron": ("score", (SAPO, *PERCEPTRONS)),
    "accuracy-mira": ("score", (SAPO, *MIRAS)),
    "complexity": ("complexity", (SAPO, "CRF", *PERCEPTRONS, *MIRAS)),
}
LABELS = {"score": "F or accuracy on test, %", "complexity": "mean absolute weight"}


class Curves(NamedTuple):
    """(seeds, passes) each."""

    score: NDArray[np.float64]
    complexity: NDArray[np.float64]
    seconds: NDArray[np.float64]


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    metrics, output = map(Path, sys.argv[1:])
    results = {name: read(metrics / f"{name}.csv") for name in TASKS}
    results = {name: curves for name, curves in results.items() if curves}
    if not results:
        sys.exit(f"{metrics}: none of {', '.join(f'{name}.csv' for name in TASKS)} is there")
    output.mkdir(parents=True, exist_ok=True)
    for name, (what, methods) in FIGURES.items():
        draw_by_pass(output / f"{name}.png", results, what, methods)
    draw_seconds(output / "seconds.png", results)
    rows = [row for name, curves in results.items() for row in summarize(name, curves)]
    write_text(output / "results.csv", to_csv(rows))
    notes = ["# SAPO experiments", *(table(name, rows) for name in results)]
    convergence = metrics / "convergence.csv"
    if convergence.exists():
        notes.append(draw_convergence(output / "convergence.png", convergence))
    write_text(output / "results.md", "\n\n".join(notes) + "\n")
    print(f"{output}: {', '.join(sorted(path.name for path in output.iterdir()))}")


def read(path: Path) -> dict[str, Curves]:
    """By method; none if the file is not there. ValueError if seeds differ in their passes."""
    if not path.exists():
        return {}
    found: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf8", newline="") as file:
        for row in csv.DictReader(file):
            values = [float(row[column]) for column in ("score", "complexity", "seconds")]
            found[row["method"]][row["seed"]].append(values)
    curves = {}
    for method, by_seed in found.items():
        if len({len(values) for values in by_seed.values()}) > 1:
            raise ValueError(f"{path}: {method} has seeds with different numbers of passes")
        curves[method] = Curves(*np.array(list(by_seed.values())).transpose(2, 0, 1))
    return curves


def summarize(task: str, curves: dict[str, Curves]) -> list[dict[str, str]]:
    """A row for each method, at its last pass."""
    rows = []
    for method, curve in curves.items():
        last = curve.score[:, -1]
        weights = curve.complexity.mean(axis=0)
        growth = (
            100 * (weights[-1] / weights[len(weights) // 2 - 1] - 1) if len(weights) > 3 else None
        )
        rows.append(
            {
                "task": task,
                "method": method,
                "passes": str(curve.score.shape[1]),
                "seeds": str(len(last)),
                "score": f"{last.mean():.2f}",
                "deviation": f"{last.std(ddof=1):.2f}" if len(last) > 1 else "",
                "SAPO better by": f"{curves[SAPO].score[:, -1].mean() - last.mean():+.2f}"
                if SAPO in curves
                else "",
                "p": significance(curves, method),
                "weights at the end": f"{weights[-1]:.2g}",
                "growth over the second half, %": "" if growth is None else f"{growth:+.1f}",
                "s/pass": f"{np.median(curve.seconds):.2f}",
            }
        )
    return rows


def significance(curves: dict[str, Curves], method: str) -> str:
    """Two-sided p of a paired t-test of SAPO against it at the last pass, over the seeds."""
    if method == SAPO or SAPO not in curves:
        return ""
    one, other = curves[SAPO].score[:, -1], curves[method].score[:, -1]
    if len(one) != len(other) or len(one) < 2 or np.ptp(one - other) == 0:
        return ""
    return f"{ttest_rel(one, other).pvalue:.2g}"


def draw_by_pass(
    path: Path, results: dict[str, dict[str, Curves]], what: str, methods: tuple[str, ...]
) -> None:
    figure, axes = panels(results)
    for axis, curves in zip(axes, results.values(), strict=True):
        for k, method in enumerate(methods):
            if method not in curves:
                continue
            values = getattr(curves[method], what)
            passes = np.arange(1, values.shape[1] + 1)
            style = {"linewidth": 2.5, "color": "black"} if method == SAPO else {"color": f"C{k}"}
            axis.plot(passes, values.mean(axis=0), label=method, **style)
        axis.set_xlabel("pass")
        if what == "complexity":
            axis.set_yscale("log")
        else:
            # The first passes would squeeze all others together.
            ends = [c.score[:, -1].mean() for m, c in curves.items() if m in methods]
            axis.set_ylim(min(ends) - 2, max(ends) + 0.5)
    axes[0].set_ylabel(LABELS[what])
    save(figure, axes, path)


def draw_seconds(path: Path, results: dict[str, dict[str, Curves]]) -> None:
    figure, axes = panels(results)
    for axis, curves in zip(axes, results.values(), strict=True):
        names = list(curves)
        bars = axis.barh(names, [float(np.median(curves[name].seconds)) for name in names])
        axis.bar_label(bars, fmt="%.2f", padding=2)
        axis.margins(x=0.15)
        axis.set_xscale("log")
        axis.set_xlabel("seconds of processor time a pass")
    save(figure, axes, path, legend=False)


def draw_convergence(path: Path, source: Path) -> str:
    """Draws it, and says it as a table."""
    with source.open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    points = sorted({int(row["after passes"]) for row in rows})
    for point in points:
        own = [row for row in rows if int(row["after passes"]) == point]
        sizes = [int(row["n"]) for row in own]
        left.plot(sizes, [float(row["gap"]) for row in own], "o-", label=f"after {point} passes")
    left.set_ylabel("|gradient - SAPO's update| / |gradient|")
    right.plot(sizes, [float(row["distance at the end"]) for row in own], "o-")
    right.set_ylabel("|w - w*| / |w*| after training with a small fixed rate")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_xlabel("n")
        axis.grid(alpha=0.3)
    left.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
    columns = list(own[0])
    lines = [[row[columns[0]], *(f"{float(row[c]):.3g}" for c in columns[1:])] for row in rows]
    return "## Convergence: the update against the gradient\n\n" + markdown(columns, lines)


def panels(results: dict) -> tuple:
    figure, axes = plt.subplots(
        1, len(results), figsize=(5 * len(results), 4), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes[0], results, strict=True):
        axis.set_title(TASKS[name].title)
        axis.grid(alpha=0.3)
    return figure, axes[0]


def save(figure: Any, axes: NDArray, path: Path, legend: bool = True) -> None:
    if legend:
        axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def table(task: str, rows: list[dict[str, str]]) -> str:
    own = [row for row in rows if row["task"] == task]
    columns = [column for column in own[0] if column != "task"]
    lines = [[row[column] for column in columns] for row in own]
    return f"## {TASKS[task].title}\n\n" + markdown(columns, lines)


def markdown(columns: list[str], lines: list[list[str]]) -> str:
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def to_csv(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    main()
