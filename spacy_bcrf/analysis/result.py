"""What results of an analysis share: JSON values, a table in notebooks, an empty figure."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from spacy.language import Language

from spacy_bcrf.annotation.html_table import html_table
from spacy_bcrf.io.extras import require


class Result:
    """A dataclass with JSON values, and a table in notebooks: of its fields, or of its `rows`."""

    def to_json(self) -> Any:
        """Return all values but pipelines as JSON values, None for unknown numbers."""
        return as_json(self)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table, with a header."""
        return [("value", "content"), *((k, str(v)) for k, v in self.to_json().items())]

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


def make_figure(width: float = 6.4, height: float = 4.8) -> Any:
    """Return an empty Matplotlib figure. Sizes in inches. ImportError names the extra."""
    matplotlib = require("matplotlib.figure", "plot")
    return matplotlib.Figure(figsize=(width, height), layout="constrained")
