"""Figures of the experiments and benchmarks."""

from pathlib import Path
from typing import Any

from bcrf.io.atomic import replacing
from bcrf.io.extras import require

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
