"""The paths of the compiled kernels, which tests force in turn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import isfunction
from typing import Any

import numpy as np

from bcrf import kernels
from bcrf.kernels import BregmanOptions, native

PATHS = ["lanes", "rows", "lanes wide", "rows wide", "float64"]

_OPERATIONS = {
    "max_product": "max_product",
    "mean_field": "mean_field",
    "mean_field_loss": "mean_field",
    "entropy": "posterior",
    "pair_marginals": "posterior",
    "sample": "posterior",
}
"""The operation of each function. That of the others depends on the options."""


def paths_of(
    operation: str,
    dtype: str = "float32",
    shared: bool = True,
    *,
    edges: str = "none",
    options: BregmanOptions | None = None,
) -> list[str]:
    """Return the paths that a call of an operation has, in the order of `PATHS`."""
    only_plain = operation in ("mean_field", "max_product")
    lanes = shared and not (operation == "bregman" and edges == "each")
    # Wide floats would lose digits.
    once = options is not None and options.bound == "lower" and options.n_iter == 1
    return [
        path
        for path in PATHS
        if not (only_plain and path not in ("lanes", "rows"))
        and (lanes or not path.startswith("lanes"))
        and not (once and dtype == "float32" and "wide" in path)
        and (dtype == "float32" or path != "float64")
    ]


@contextmanager
def forced(path: str | None) -> Iterator[None]:
    """Force a path, or leave the choice to the plan if it is None."""
    before = os.environ.pop("BCRF_PATH", None)
    if path is not None:
        os.environ["BCRF_PATH"] = path
    try:
        yield
    finally:
        os.environ.pop("BCRF_PATH", None)
        if before is not None:
            os.environ["BCRF_PATH"] = before


def counts(operation: str, dtype: Any) -> dict[str, int]:
    """Return how many sequences each path of an operation has computed since the last clearing."""
    found = kernels.path_counts()
    return {
        path: n
        for (name, kind, path), n in found.items()
        if (name, kind) == (operation, np.dtype(dtype).name)
    }


class Forced:
    """The functions of `native` on one path. Each call asserts that the path ran.

    A path that the operation lacks leaves the choice to the plan. If the range of the scores is
    small, the path must hold all sequences that have an allowed labeling. Otherwise, the last path
    of the plan may compute some of them.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    def _call(
        self, name: str, xp: Any, unary: Any, transitions: Any, lengths: Any, *args: Any
    ) -> Any:
        kernel = getattr(native, name)
        options = next((x for x in args if isinstance(x, BregmanOptions)), None)
        operation = _operation(name, options)
        scale = options.scale if options else 1.0
        edges = args[1] if name == "bregman" else "none"
        shared = transitions.ndim == 2
        paths = paths_of(operation, unary.dtype.name, shared, edges=edges, options=options)
        limit = 66 if unary.dtype == "float32" else 650
        if "lanes wide" in paths and _range(transitions) * scale > limit:
            paths.remove("lanes wide")
        # A CUDA kernel that replaces a compiled one is a function of Python.
        if self.path not in paths or isfunction(kernel):
            return kernel(xp, unary, transitions, lengths, *args)
        with forced(None):
            allowed = native.max_product(xp, unary, transitions, lengths)[1] > -np.inf
        kernels.clear_path_counts()
        with forced(self.path):
            result = kernel(xp, unary, transitions, lengths, *args)
        ran = counts(operation, unary.dtype)
        fits = _fits(operation, self.path, lengths)
        last = paths[-1]
        assert set(ran) <= {self.path, last}, ran
        assert sum(ran.values()) == (lengths > 0).sum(), ran
        found = ran.get(self.path, 0)
        assert self.path == last or found <= fits.sum(), (found, fits.sum())
        if self.path == last or _holds(self.path, unary, transitions, scale):
            assert found >= (fits & allowed).sum(), (found, fits, allowed)
        return result


def _operation(name: str, options: BregmanOptions | None) -> str:
    """Return the operation of a call. A loss is that of a Bregman CRF if it has options."""
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    return "bregman" if options else "sum_product"


def _fits(operation: str, path: str, lengths: Any) -> Any:
    """Return which sequences (B,) fit the layout."""
    over_tokens = operation in ("bregman", "mean_field")
    return lengths > (2 if over_tokens and path.startswith("lanes") else 0)


def _holds(path: str, unary: Any, transitions: Any, scale: float) -> bool:
    """Return whether scores of this range fit the numbers of a path."""
    total = _range(unary) * scale + _range(transitions) * scale
    return bool(total < (1e6 if "wide" in path else 30))


def _range(scores: Any) -> float:
    finite = scores[np.isfinite(scores)]
    return float(finite.max() - finite.min()) if finite.size else 0
