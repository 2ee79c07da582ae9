"""The GPU's kernels in place of the compiled ones, so that tests of these run on both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from spacy_bcrf.kernels import Result, native


@cache
def why_not() -> str:
    """Why there is no GPU to test on; empty if there is one."""
    try:
        import cupy

        cupy.zeros(1).get()
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    except Exception as error:
        return f"CuPy has no GPU: {error}"
    return ""


def put_in_place(patch: pytest.MonkeyPatch) -> None:
    from spacy_bcrf.kernels import cuda

    for name in cuda.__all__:
        patch.setattr(native, name, _over_numpy(getattr(cuda, name)))


def to_gpu(arg: Any) -> Any:
    import cupy

    return cupy.asarray(arg) if isinstance(arg, np.ndarray) else arg


def to_host(found: Any) -> Any:
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
        if found is None:
            # It added to its last two arguments.
            for arg, result in zip(args[-2:], moved[-2:], strict=True):
                arg[...] = result.get()
        return to_host(found)

    return run
