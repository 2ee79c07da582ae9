"""Tables and figures of the experiments and benchmarks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from bcrf.io.atomic import replacing, write_text
from bcrf.io.extras import require


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV. The first row holds the column names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(path, text.getvalue())


def markdown_table(rows: Sequence[Sequence[object]]) -> str:
    """Format rows as a Markdown table. The first row holds the column names."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def mean_and_deviation(values: Sequence[float], digits: int = 2) -> str:
    """Format the mean of several seeds and its standard deviation: `93.8 ± 0.1`.

    The deviation is the sample's (n - 1). A single value has none.
    """
    average = f"{mean(values):.{digits}f}"
    return average if len(values) == 1 else f"{average} ± {stdev(values):.{digits}f}"


COLORS = ("#0072b2", "#e69f00", "#56b4e9", "#cc79a7", "#000000", "#f0e442")
"""Okabe and Ito (2008), without its red and green: they differ for colour-blind readers too."""


def make_figure(width: float, height: float) -> Any:
    """Make a matplotlib figure of this size in inches. ImportError names the missing extra."""
    cycler = require("cycler", "plot").cycler
    require("matplotlib", "plot").rcParams["axes.prop_cycle"] = cycler(color=COLORS)
    figure = require("matplotlib.figure", "plot").Figure
    return figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Save a matplotlib figure in the format of the suffix, by default PNG.

    Equal figures give equal files: an SVG has no date, and no random names.
    """
    kind = path.suffix[1:] or "png"
    require("matplotlib", "plot").rcParams["svg.hashsalt"] = "spacy-bcrf"
    options = {"metadata": {"Date": None}} if kind == "svg" else {}
    with replacing(path) as part:
        figure.savefig(part, format=kind, dpi=120, **options)
