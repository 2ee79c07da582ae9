"""Figures and tables of the SAPO experiments, from the output of `run`.

    python -m experiments.sapo.figures metrics/sapo metrics/sapo/figures

- accuracy-probabilistic.png, accuracy-perceptron.png, accuracy-mira.png: test score by pass.
- complexity.png: mean absolute weight by pass.
- seconds.png: processor time of a pass.
- results.csv, results.md: score after the last pass, paired t-test of SAPO against each method over
  the sentence orders, growth of the weights, and seconds a pass. "SAPO" searches by A*, and "SAPO,
  beam" by a beam of 50.

The figures follow the paper, with a panel for each task.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcrf.io.atomic import write_text
from bcrf.io.extras import require
from experiments.sapo.tasks import TASKS
from lab.figures import make_figure, save_figure
from lab.tables import markdown_table, write_csv

ttest_rel = require("scipy.stats", "bench").ttest_rel

SAPO = "SAPO"
PERCEPTRONS = ("perceptron", "averaged perceptron")
MIRAS = ("MIRA", "averaged MIRA", "n-best MIRA", "averaged n-best MIRA")
OTHER_SAPO = ("SAPO, beam", "SAPO, L1", "averaged SAPO")
GRADIENTS = ("CRF", "averaged CRF", *OTHER_SAPO, "BiLSTM", "BiLSTM-CRF")
FIGURES = {
    "accuracy-probabilistic": ("score", (SAPO, *GRADIENTS)),
    "accuracy-perceptron": ("score", (SAPO, *PERCEPTRONS)),
    "accuracy-mira": ("score", (SAPO, *MIRAS)),
    "complexity": ("complexity", (SAPO, "SAPO, L1", "CRF", *PERCEPTRONS, *MIRAS)),
}
LABELS = {"score": "F or accuracy on test, %", "complexity": "mean absolute weight"}


class Curves(NamedTuple):
    """Measurements of one method, (seeds, passes) each."""

    score: NDArray[np.float64]
    complexity: NDArray[np.float64]
    nonzero: NDArray[np.float64]
    seconds: NDArray[np.float64]


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    metrics, output = map(Path, sys.argv[1:])
    results = {name: read(metrics / f"{name}.csv") for name in TASKS}
    results = {name: curves for name, curves in results.items() if curves}
    if not results:
        sys.exit(f"{metrics}: no results; expected {', '.join(f'{name}.csv' for name in TASKS)}")
    output.mkdir(parents=True, exist_ok=True)
    for name, (what, methods) in FIGURES.items():
        draw_by_pass(output / f"{name}.png", results, what, methods)
    draw_seconds(output / "seconds.png", results)
    rows = [row for name, curves in results.items() for row in summarize(name, curves)]
    write_csv(output / "results.csv", [list(rows[0]), *(list(row.values()) for row in rows)])
    notes = ["# SAPO experiments\n", *(table(name, rows) for name in results)]
    write_text(output / "results.md", "\n".join(notes))
    print(f"{output}: {', '.join(sorted(path.name for path in output.iterdir()))}")


def read(path: Path) -> dict[str, Curves]:
    """Read the curves of each method; none if there is no such file.

    Raises ValueError if the seeds of a method have different numbers of passes.
    """
    if not path.exists():
        return {}
    found: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf8", newline="") as file:
        for row in csv.DictReader(file):
            values = [float(row[column]) for column in Curves._fields]
            found[row["method"]][row["seed"]].append(values)
    curves = {}
    for method, by_seed in found.items():
        if len({len(values) for values in by_seed.values()}) > 1:
            raise ValueError(f"{path}: the seeds of {method} have different numbers of passes")
        curves[method] = Curves(*np.array(list(by_seed.values())).transpose(2, 0, 1))
    return curves


def summarize(task: str, curves: dict[str, Curves]) -> list[dict[str, str]]:
    """Make a table row for each method, after its last pass."""
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
                "non-zero weights, %": f"{curve.nonzero[:, -1].mean():.1f}",
                "s/pass": f"{np.median(curve.seconds):.2f}",
            }
        )
    return rows


def significance(curves: dict[str, Curves], method: str) -> str:
    """Return the two-sided p of a paired t-test of SAPO against a method, over the seeds."""
    if method == SAPO or SAPO not in curves:
        return ""
    one, other = curves[SAPO].score[:, -1], curves[method].score[:, -1]
    if len(one) != len(other) or len(one) < 2 or np.ptp(one - other) == 0:
        return ""
    return f"{ttest_rel(one, other).pvalue:.2g}"


def draw_by_pass(
    path: Path, results: dict[str, dict[str, Curves]], what: str, methods: tuple[str, ...]
) -> None:
    """Draw the curves of `what`, a field of `Curves`, by pass, with a panel for each task."""
    figure, axes = make_panels(results)
    for axis, curves in zip(axes, results.values(), strict=True):
        for k, method in enumerate(methods):
            if method not in curves:
                continue
            values = getattr(curves[method], what)
            passes = np.arange(1, values.shape[1] + 1)
            style = {"linewidth": 2.5, "color": "black"} if method == SAPO else {"color": f"C{k}"}
            axis.plot(passes, values.mean(axis=0), label=method, **style)
        axis.set_xlabel("pass")
        axis.xaxis.get_major_locator().set_params(integer=True)
        if what == "complexity":
            axis.set_yscale("log")
        else:
            # The scores of the first passes are so low that they would hide all differences.
            ends = [c.score[:, -1].mean() for m, c in curves.items() if m in methods]
            axis.set_ylim(min(ends) - 2, max(ends) + 0.5)
    axes[0].set_ylabel(LABELS[what])
    axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    save_figure(figure, path)


def draw_seconds(path: Path, results: dict[str, dict[str, Curves]]) -> None:
    """Draw the median processor time of a pass of each method, with a panel for each task."""
    figure, axes = make_panels(results)
    for axis, curves in zip(axes, results.values(), strict=True):
        names = list(curves)
        bars = axis.barh(names, [float(np.median(curves[name].seconds)) for name in names])
        axis.bar_label(bars, fmt="%.2f", padding=2)
        axis.margins(x=0.15)
        axis.set_xscale("log")
        axis.set_xlabel("seconds of processor time a pass")
    save_figure(figure, path)


def make_panels(results: dict[str, dict[str, Curves]]) -> tuple[Any, NDArray]:
    """Make a figure with a panel for each task."""
    figure = make_figure(5 * len(results), 4)
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    for axis, name in zip(axes, results, strict=True):
        axis.set_title(TASKS[name].title)
        axis.grid(alpha=0.3)
    return figure, axes


def table(task: str, rows: list[dict[str, str]]) -> str:
    """Format the rows of a task as a Markdown section."""
    own = [row for row in rows if row["task"] == task]
    columns = [column for column in own[0] if column != "task"]
    lines = [[row[column] for column in columns] for row in own]
    return f"## {TASKS[task].title}\n\n" + markdown_table([columns, *lines])


if __name__ == "__main__":
    main()
