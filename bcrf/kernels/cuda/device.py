"""The GPU: compilation and launch of kernels.

CuPy compiles a .cu file at its first use, and caches the binary in ~/.cupy/kernel_cache.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from bcrf.kernels.backend import Array

SOURCES = Path(__file__).parent
C_TYPES = {"float32": "float", "float64": "double"}
NUMBERS: dict[str, type[np.number]] = {"int": np.int32, "int64": np.int64, "double": np.float64}
"""NumPy's types of the numbers that kernels take."""
NULL = np.uint64(0)
KERNEL = re.compile(r"^KERNEL (\w+)\(([^)]*)\)", re.MULTILINE)


class Launch(NamedTuple):
    """One launch of a kernel of a .cu file.

    types: dtype of the scores, dtype of the inner loops. threads: threads a block.
    shared_memory: bytes a block. args: arrays, None for a null pointer, and numbers, see `pack`.
    width: of the matrices in registers, see registers.cuh, or 0.
    """

    file: str
    kernel: str
    types: tuple[str, str]
    blocks: int
    threads: int
    shared_memory: int
    args: Sequence[Any]
    width: int = 0


class Part(NamedTuple):
    """A part of an array of bytes, which kernels alone use.

    It takes a tenth of the time that Python takes to create an array.
    """

    memory: Array
    address: int
    size: int
    dtype: np.dtype

    def view(self, dtype: np.dtype) -> Part:
        """Return the same bytes as numbers of another dtype."""
        return self._replace(dtype=dtype)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class Device(Protocol):
    """A GPU, or its emulation in tests.

    shared_memory: maximum bytes of a block.
    """

    shared_memory: int

    def current(self) -> AbstractContextManager:
        """Return a context that creates arrays on this device."""

    def free(self) -> None:
        """Release cached memory."""

    def address(self, array: Array) -> int:
        """Return the address of an array's first byte."""

    def launch(self, launch: Launch) -> None:
        """Launch a kernel, without waiting for it."""


def find(*arrays: Array) -> Device:
    """Return the device of CuPy arrays or PyTorch's CUDA tensors.

    Raises ValueError if the arrays are on different devices, RuntimeError if the device cannot run
    or compile kernels.
    """
    devices = [array.device for array in arrays]
    indices = [found.id if hasattr(found, "id") else found.index for found in devices]
    if len(set(indices)) > 1:
        raise ValueError(
            f"arrays are on different GPUs, {', '.join(map(str, indices))}: move them to one"
        )
    return _cupy_device(indices[0])


def source(file: str) -> str:
    """Return the text of a file with its included files inline.

    The text is the key of CuPy's cache, so it must change with an included file.
    file: path from this folder.
    """
    path = SOURCES / file
    included = re.compile(r'#include "(.+)"')
    return included.sub(lambda found: source(str(path.parent / found[1])), path.read_text())


def parameters(file: str) -> dict[str, list[str]]:
    """Return the kernels of a .cu file with the C types of their parameters, such as "float*"."""
    return {
        name: [_type(parameter.replace("long long", "int64")) for parameter in listed.split(",")]
        for name, listed in KERNEL.findall(source(f"{file}.cu"))
    }


def _type(parameter: str) -> str:
    return re.sub(r"const |\w+$| ", "", parameter.strip())


@cache
def _signature(
    file: str, kernel: str, types: tuple[str, str]
) -> list[tuple[type[np.number] | None, np.dtype]]:
    """Return the dtype of each parameter, and NumPy's type of numbers unless it is a pointer."""
    names = {"Score": types[0], "Real": types[1], "int": "int32", "double": "float64"}
    names |= {"unsignedshort": "uint16", "signedchar": "int8", "unsignedchar": "uint8"}
    listed = ((c_type, c_type.removesuffix("*")) for c_type in parameters(file)[kernel])
    return [(NUMBERS.get(c_type), np.dtype(names.get(name, name))) for c_type, name in listed]


def pack(launch: Launch) -> list[Any]:
    """Return the arguments of a launch in the types of the kernel's parameters.

    A Python int becomes a double where the kernel takes one. CuPy would pass its bytes.

    Raises TypeError naming the kernel and the first argument that does not fit.
    """
    found: list[Any] = []
    expected = _signature(launch.file, launch.kernel, launch.types)
    for arg, (number, dtype) in zip(launch.args, expected, strict=True):
        if number:
            fits = type(arg) in (int, np.int64) or (number is np.float64 and type(arg) is float)
            found.append(number(arg) if fits else arg)
        elif arg is None:
            fits = True
            found.append(NULL)
        else:
            fits = getattr(arg, "dtype", None) == dtype
            found.append(np.uint64(arg.address) if type(arg) is Part else arg)
        if not fits:
            what = getattr(arg, "dtype", type(arg).__name__)
            where = f"kernel {launch.kernel}, argument {len(found) - 1}"
            raise TypeError(f"{where}: expected {dtype}, got {what}")
    return found


def options(types: tuple[str, str], width: int = 0) -> tuple[str, ...]:
    """Return the options of the compiler for a launch. CuPy adds `-ftz=true`."""
    score, real = (C_TYPES[dtype] for dtype in types)
    found = "--std=c++17", f"-DBCRF_SCORE={score}", f"-DBCRF_REAL={real}"
    return (*found, f"-DBCRF_WIDTH={width}") if width else found


@cache
def _cupy_device(index: int) -> Device:
    return _CupyDevice(index)


class _CupyDevice:
    def __init__(self, index: int) -> None:
        import cupy

        self._cupy = cupy
        try:
            version = cupy.cuda.nvrtc.getVersion()
            attributes = cupy.cuda.Device(index).attributes
        except Exception as error:
            raise RuntimeError(
                f"CuPy is installed but cannot use a GPU and CUDA toolkit ({error}): install a "
                "driver and CuPy for its CUDA version, as in "
                "pip install 'cupy-cuda12x>=13', or use the CPU (--gpu-id -1)"
            ) from error
        if version < (11, 2):
            raise RuntimeError(
                "the kernels need CUDA 11.2 or later, but CuPy found NVRTC "
                f"{version[0]}.{version[1]}: install cupy-cuda12x or cupy-cuda13x and its toolkit"
            )
        self._index = index
        self.shared_memory = attributes["MaxSharedMemoryPerBlockOptin"]
        self._kernels: dict[tuple[str, str, tuple[str, str], int], Any] = {}

    def current(self) -> AbstractContextManager:
        return self._cupy.cuda.Device(self._index)

    def free(self) -> None:
        self._cupy.get_default_memory_pool().free_all_blocks()

    def address(self, array: Array) -> int:
        return array.data.ptr

    def launch(self, launch: Launch) -> None:
        function = self._find(launch.file, launch.kernel, launch.types, launch.width)
        if launch.shared_memory > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = launch.shared_memory
        # Registers may allow fewer threads than there are tags, at 255 a thread still 256. Kernels
        # that need a number of threads need no more.
        threads = min(launch.threads, function.max_threads_per_block)
        function((launch.blocks,), (threads,), pack(launch), shared_mem=launch.shared_memory)

    def _find(self, file: str, kernel: str, types: tuple[str, str], width: int) -> Any:
        key = file, kernel, types, width
        if key not in self._kernels:
            self._kernels[key] = _module(self._cupy, file, types, width).get_function(kernel)
        return self._kernels[key]


def _module(cupy: Any, file: str, types: tuple[str, str], width: int) -> Any:
    module = cupy.RawModule(code=source(f"{file}.cu"), options=options(types, width))
    try:
        module.compile()
    except cupy.cuda.compiler.CompileException as error:
        version = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        raise RuntimeError(
            f"{SOURCES / file}.cu does not compile with NVRTC {version}. If the GPU is newer than "
            f"this version, install a later CuPy and toolkit (cupy-cuda13x). {error}"
        ) from error
    return module
