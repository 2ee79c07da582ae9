"""Checks of the types and shapes of the arguments of kernels, for NumPy and CuPy arrays.

Each error names the argument. The checks of a batch take about a microsecond, and do not wait for a
GPU. The compiled kernels also check the contents that they use as indices.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from .backend import Array, BregmanOptions

INT32, FLOAT64 = np.dtype("int32"), np.dtype("float64")
FLOATS = np.dtype("float32"), FLOAT64
INT_MAX = 2**31 - 1

Shape = tuple[int | None, ...]
"""The shape that an array must have. None stands for any number."""


def array_module(array: Array) -> ModuleType:
    """The module of the array, NumPy or CuPy. Does not import CuPy for a NumPy array."""
    if isinstance(array, np.ndarray):
        return np
    if type(array).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy
    raise TypeError(f"expected a NumPy or CuPy array, got {type(array).__name__}")


def check_array(name: str, array: Array, xp: ModuleType, dtype: np.dtype, *shapes: Shape) -> None:
    """Raise TypeError for another type or dtype, ValueError for another shape or layout."""
    if not isinstance(array, xp.ndarray):
        raise TypeError(f"{name} must be a {xp.__name__} array, got {type(array).__name__}")
    if array.dtype != dtype:
        raise TypeError(f"{name} must be {dtype}, got {array.dtype}")
    if array.shape not in shapes and not any(_fits(array.shape, shape) for shape in shapes):
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {expected}, got {array.shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} is not C-contiguous: pass {xp.__name__}.ascontiguousarray")


def _fits(shape: tuple[int, ...], expected: Shape) -> bool:
    return len(shape) == len(expected) and all(
        n is None or n == m for m, n in zip(shape, expected, strict=True)
    )


def check_output(name: str, array: Array, xp: ModuleType, dtype: np.dtype, *shapes: Shape) -> None:
    """Check an array that the kernel changes in place."""
    check_array(name, array, xp, dtype, *shapes)
    if xp is np and not array.flags.writeable:
        raise ValueError(f"{name} is read-only, and the kernel changes it in place")


def float_dtype(name: str, array: Array, n_axes: int) -> np.dtype:
    """Return the dtype of an array. Raise TypeError unless it is a float, and check the axes."""
    if array.dtype not in FLOATS:
        raise TypeError(f"{name} must be float32 or float64, got {array.dtype}")
    if array.ndim != n_axes:
        raise ValueError(f"{name} must have {n_axes} axes, got shape {array.shape}")
    return array.dtype


def check_batch(unary: Array, transitions: Array, lengths: Array) -> ModuleType:
    """Check the arrays of a batch, and return their module."""
    xp = array_module(unary)
    dtype = float_dtype("unary", unary, 2)
    n, t = shape = unary.shape
    if not t:
        raise ValueError(f"unary must have at least one tag, got shape {shape}")
    check_array("unary", unary, xp, dtype, shape)
    check_array("transitions", transitions, xp, dtype, (t, t), (n, t, t))
    check_lengths(lengths, xp)
    return xp


def check_lengths(lengths: Array, xp: ModuleType) -> None:
    """Check the type of the lengths. The kernels check their sum."""
    check_array("lengths", lengths, xp, INT32, (None,))


def check_count(name: str, value: int) -> None:
    """Raise TypeError unless the value is an integer, ValueError unless it is a positive int32."""
    if not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 1 <= value <= INT_MAX:
        raise ValueError(f"{name} must be from 1 to {INT_MAX}, got {value}")


def check_edges(edges: str, transitions: Array) -> None:
    """Raise ValueError for an unknown kind of edge marginals, or a sum of per-edge transitions."""
    if edges not in ("none", "sum", "each"):
        raise ValueError(f"edges must be none, sum or each, got {edges!r}")
    if edges == "sum" and transitions.ndim != 2:
        raise ValueError(
            f'edges = "sum" needs shared transitions, (T, T), got shape {transitions.shape}'
        )


def check_bregman(options: BregmanOptions) -> None:
    """Raise ValueError naming the option of the Bregman projections that is out of range."""
    check_count("n_iter", options.n_iter)
    if options.relaxation is not None and not 1 <= options.relaxation < 2:
        raise ValueError(f"relaxation must be in [1, 2), or None, got {options.relaxation}")
    if options.tolerance is not None and not options.tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0, or None, got {options.tolerance}")
    if options.bound not in ("upper", "lower"):
        raise ValueError(f"bound must be upper or lower, got {options.bound!r}")
    if not 0 < options.scale < float("inf"):
        raise ValueError(f"scale must be positive and finite, got {options.scale}")
