"""CUDA kernels in place of the compiled ones, so that the same tests run on both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import getmembers, isfunction
from typing import Any

import numpy as np
import pytest

from bcrf import kernels
from bcrf.kernels import Result, native


@cache
def why_not() -> str:
    """Return why no GPU is available for tests, or an empty string if one is available."""
    try:
        import cupy

        cupy.zeros(1).get()
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    except Exception as error:
        return f"CuPy has no GPU: {error}"
    return ""


def replace_compiled_kernels(patch: pytest.MonkeyPatch) -> None:
    """Replace each compiled kernel by the CUDA kernel of the same name, over NumPy arrays."""
    from bcrf.kernels import cuda

    for name, kernel in getmembers(cuda, isfunction):
        # Some kernels, such as the fused loss of a BCRF, are functions of a GPU alone.
        patch.setattr(native, name, _over_numpy(kernel), raising=False)


def to_gpu(arg: Any) -> Any:
    """Copy a NumPy array to the GPU. Return anything else unchanged."""
    import cupy

    return cupy.asarray(arg) if isinstance(arg, np.ndarray) else arg


def to_host(found: Any) -> Any:
    """Copy the CuPy arrays of a result to the host."""
    if isinstance(found, Result):
        return Result(*map(to_host, found))
    if isinstance(found, tuple):
        return tuple(map(to_host, found))
    return found.get() if hasattr(found, "get") else found


def _over_numpy(kernel: Callable) -> Callable:
    def run(_: Any, *args: Any) -> Any:
        import cupy

        moved = [to_gpu(arg) for arg in args]
        found = kernel(cupy, *moved)
        kernels.take_errors(moved[0])  # of wrong data, which a later test would raise
        if found is None:
            # The kernel has added to its last two arguments.
            for arg, result in zip(args[-2:], moved[-2:], strict=True):
                arg[...] = result.get()
        return to_host(found)

    return run
