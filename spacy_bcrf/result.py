"""The base class of results: JSON values, a table in notebooks, an empty figure."""

import io
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from spacy.language import Language

from bcrf.io.extras import require
from spacy_bcrf.annotation.display import html_table


class Result:
    """A dataclass with JSON values, and a table as text and HTML: of its fields, or its `rows`."""

    def to_json(self) -> Any:
        """Return all values but pipelines as JSON values, None for unknown numbers."""
        return as_json(self)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table, with a header."""
        return [("value", "content"), *((k, str(v)) for k, v in self.to_json().items())]

    def lines(self) -> Iterator[str]:
        """Yield the table as text, its columns aligned."""
        rows = self.rows()
        sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            yield "  ".join(map(str.ljust, row, sizes)).rstrip()

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        header, *rows = self.rows()
        return html_table(header, rows)


def as_json(value: Any) -> Any:
    """Return a result, a named tuple, an array or a container of them as JSON values."""
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value) if each.repr}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {k: as_json(v) for k, v in value.items() if not isinstance(v, Language)}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_axes(
    rows: int = 1, columns: int = 1, *, width: float = 6.4, height: float = 4.8, **options: Any
) -> tuple[Any, Any]:
    """Return an empty Matplotlib figure, which a notebook shows, and its axes. ImportError names
    the extra.

    width, height: in inches. options: of `Figure.subplots`.
    """
    matplotlib = require("matplotlib.figure", "plot")

    class Figure(matplotlib.Figure):  # type: ignore[name-defined]
        def _repr_png_(self) -> bytes:
            self.savefig(file := io.BytesIO(), format="png")
            return file.getvalue()

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def plot_reliability(axes: Any, confidence: Any, accuracy: Any, counts: Any, name: str) -> None:
    """Draw the bins (K,) of a reliability table that have predictions."""
    some = np.asarray(counts) > 0
    axes.plot([0, 1], [0, 1], color="gray", linestyle="--", label="perfect calibration")
    axes.plot(np.asarray(confidence)[some], np.asarray(accuracy)[some], marker="o", label=name)
    axes.set(xlabel="confidence", ylabel="accuracy")
    axes.legend()
