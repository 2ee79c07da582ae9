"""The GPU as the kernels' launches see it: CuPy compiles the .cu files at first use, and keeps what
it compiled (in ~/.cupy/kernel_cache)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import Array

SOURCES = Path(__file__).parent
C_TYPES = {"float32": "float", "float64": "double"}


class Device(Protocol):
    """What launches ask of a device.

    multiprocessors: how many blocks run at once, at least. shared_memory: bytes a block may have.
    """

    multiprocessors: int
    shared_memory: int

    def launch(
        self,
        file: str,
        kernel: str,
        types: tuple[str, str],
        grid: tuple[int, ...],
        threads: int,
        shared_memory: int,
        args: Sequence[Any],
    ) -> None:
        """Run a kernel of a .cu file, compiled for (dtype of scores, dtype of inner loops).

        args: arrays, None for a null pointer, int for a C int, np.int64 and float for double.
        """


def find(array: Array) -> Device:
    """The device of a CuPy array."""
    return _cupy_device(array.device.id)


def source(file: str) -> str:
    """The text of a file with what it includes: CuPy's cache knows a kernel by its text."""
    text = (SOURCES / file).read_text()
    return re.sub(r'#include "(.+)"', lambda found: source(found[1]), text)


@cache
def _cupy_device(index: int) -> Device:
    return _CupyDevice(index)


class _CupyDevice:
    def __init__(self, index: int) -> None:
        import cupy

        self._cupy = cupy
        version = cupy.cuda.nvrtc.getVersion()
        if version < (11, 2):
            raise RuntimeError(
                f"the kernels need CUDA 11.2 or later to compile, and CuPy found NVRTC "
                f"{version[0]}.{version[1]}: install cupy-cuda12x or cupy-cuda13x and its toolkit"
            )
        attributes = cupy.cuda.Device(index).attributes
        self.multiprocessors = attributes["MultiProcessorCount"]
        self.shared_memory = attributes["MaxSharedMemoryPerBlockOptin"]
        self._kernels: dict[tuple[str, str, tuple[str, str]], Any] = {}

    def launch(
        self,
        file: str,
        kernel: str,
        types: tuple[str, str],
        grid: tuple[int, ...],
        threads: int,
        shared_memory: int,
        args: Sequence[Any],
    ) -> None:
        function = self._find(file, kernel, types)
        if shared_memory > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = shared_memory
        passed = [_null_or(arg) for arg in args]
        function(grid, (threads,), passed, shared_mem=shared_memory)

    def _find(self, file: str, kernel: str, types: tuple[str, str]) -> Any:
        key = file, kernel, types
        if key not in self._kernels:
            self._kernels[key] = _module(self._cupy, file, types).get_function(kernel)
        return self._kernels[key]


def _module(cupy: Any, file: str, types: tuple[str, str]) -> Any:
    score, real = (C_TYPES[dtype] for dtype in types)
    options = ("--std=c++17", f"-DBCRF_SCORE={score}", f"-DBCRF_REAL={real}")
    module = cupy.RawModule(code=source(f"{file}.cu"), options=options)
    try:
        module.compile()
    except cupy.cuda.compiler.CompileException as error:
        version = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        raise RuntimeError(
            f"{SOURCES / file}.cu does not compile with NVRTC {version}; if the GPU is newer than "
            f"that, install a later CuPy and toolkit (cupy-cuda13x). {error}"
        ) from error
    return module


def _null_or(arg: Any) -> Any:
    if arg is None:
        return np.uint64(0)
    if isinstance(arg, float):
        return np.float64(arg)
    # CuPy would pass a Python int as 64 bits.
    return np.int32(arg) if isinstance(arg, int) else arg
