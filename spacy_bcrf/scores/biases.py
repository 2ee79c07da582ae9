"""Transition biases of a decoder, in the file format of OpenAI's Privacy Filter.

{"operating_points": {"default": {"biases": {"transition_bias_background_stay": 0.0, ..}}}}
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bcrf.io.atomic import write_text

from .foreign_labels import split_label

# From the last tag's kind to the next one's: outside, inside an entity, at its end.
_PAIRS = {
    "transition_bias_background_stay": ("O", "O"),
    "transition_bias_background_to_start": ("O", "BUS"),
    "transition_bias_inside_to_continue": ("BI", "I"),
    "transition_bias_inside_to_end": ("BI", "LE"),
    "transition_bias_end_to_background": ("LEUS", "O"),
    "transition_bias_end_to_start": ("LEUS", "BUS"),
}
NAMES = tuple(_PAIRS)


def read_biases(path: str | Path, point: str = "default") -> dict[str, float]:
    """Return the six biases of an operating point. ValueError names what is missing."""
    file = Path(path)
    try:
        points = json.loads(file.read_text(encoding="utf8"))["operating_points"]
        if point not in points:
            raise ValueError(f"no operating point {point!r}; there are {', '.join(points)}")
        biases = points[point]["biases"]
        if missing := [name for name in NAMES if name not in biases]:
            raise ValueError(f"the operating point {point!r} has no {', '.join(missing)}")
        return {name: float(biases[name]) for name in NAMES}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file}: expected operating points with six biases: {error}") from error


def write_biases(
    path: str | Path, transitions: NDArray, tags: Sequence[str], point: str = "default"
) -> None:
    """Add an operating point to a file: the mean of the transitions (T, T) that share a bias.

    The biases equal the transitions if the transitions of each kind are equal, see `spread_biases`.
    ValueError for an old file that has no operating points; it stays.
    """
    file = Path(path)
    means = {k: float(transitions[at].mean()) if at.any() else 0.0 for k, at in _masks(tags)}
    try:
        points = json.loads(file.read_text(encoding="utf8")) if file.is_file() else {}
        points.setdefault("operating_points", {})[point] = {"biases": means}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file}: expected operating points, or no file: {error}") from error
    write_text(file, json.dumps(points, indent=2) + "\n")


def spread_biases(biases: Mapping[str, float], tags: Sequence[str]) -> NDArray[np.float32]:
    """Return the transitions (T, T), `[from, to]`, of tags of the scheme BILUO or BIES."""
    transitions = np.zeros((len(tags), len(tags)), dtype="float32")
    for name, mask in _masks(tags):
        transitions[mask] = biases[name]
    return transitions


def _masks(tags: Sequence[str]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    prefixes = [split_label(tag)[0] or tag for tag in tags]
    names = np.array([split_label(tag)[1] for tag in tags])
    for name, (old, new) in _PAIRS.items():
        mask = np.outer([p in old for p in prefixes], [p in new for p in prefixes])
        yield name, mask & (names[:, None] == names) if old == "BI" else mask
