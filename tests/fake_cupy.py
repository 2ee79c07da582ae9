"""A stand-in for CuPy over NumPy, for code that runs on a GPU array without one.

It counts what costs time on a GPU: array operations, and reads of numbers, which wait for the GPU.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bcrf import kernels


class Counts:
    """operations: array operations with a result. waits: reads of numbers by Python."""

    def __init__(self) -> None:
        self.operations: list[str] = []
        self.waits: list[str] = []


class Module(ModuleType):
    """NumPy's functions, with results of the class `ndarray`."""

    def __init__(self, counts: Counts) -> None:
        super().__init__("cupy")
        self.ndarray = _array_class(counts)
        self.counts = counts

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if not callable(function) or isinstance(function, type | np.ufunc):
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            # An uninitialized array takes no kernel.
            if name != "empty":
                self.counts.operations.append(name)
            plain = [x.view(np.ndarray) if isinstance(x, self.ndarray) else x for x in args]
            found = function(*plain, **kwargs)
            return found.view(self.ndarray) if isinstance(found, np.ndarray) else found

        return call


def _array_class(counts: Counts) -> type[np.ndarray]:
    class Array(np.ndarray):
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            counts.operations.append(ufunc.__name__)
            plain = [x.view(np.ndarray) if isinstance(x, Array) else x for x in inputs]
            if "out" in kwargs:
                kwargs["out"] = tuple(x.view(np.ndarray) for x in kwargs["out"])
            found = np.asarray(getattr(ufunc, method)(*plain, **kwargs))
            return found.view(Array)

        def get(self) -> np.ndarray:
            counts.waits.append("get")
            return np.array(self.view(np.ndarray))

    def wait(name: str) -> Any:
        def method(self: Any, *args: Any) -> Any:
            counts.waits.append(name)
            return getattr(self.view(np.ndarray), name)(*args)

        return method

    for name in ("__bool__", "__int__", "__float__", "__index__", "item", "tolist"):
        setattr(Array, name, wait(name))
    Array.__module__ = "cupy"
    return Array


def install(patch: pytest.MonkeyPatch) -> Module:
    """Make `import cupy` import the stand-in. The kernels need the fixture `host`."""
    module = Module(Counts())
    patch.setitem(sys.modules, "cupy", module)
    original = kernels.array_module

    def array_module(array: Any, name: str = "the argument") -> ModuleType:
        return module if type(array) is module.ndarray else original(array, name)

    # The stand-in's arrays are NumPy arrays too.
    patch.setattr(kernels, "array_module", array_module)
    return module
