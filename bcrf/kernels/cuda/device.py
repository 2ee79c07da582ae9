"""The GPU: compilation and launch of kernels.

CuPy compiles a .cu file at its first use, and caches the binary in ~/.cupy/kernel_cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from struct import Struct, calcsize, error
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from bcrf.kernels.backend import Array

SOURCES = Path(__file__).parent
C_TYPES = {"float32": "float", "float64": "double"}
CODES = {"int": "i", "long long": "q", "double": "d", "bool": "?"}
"""C types of numbers, and their codes in a format of `struct`."""
KERNEL = re.compile(r"^KERNEL (\w+)\(const (\w+) args\)", re.MULTILINE)
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
FIELD = re.compile(
    r"^ {4}(?:const )?((?:unsigned |signed |long )?\w+)([ *][\w *,[\]]*?)( = \w+)?;", re.M
)
"""Type, names with their asterisks, and default of the fields that a line of a struct declares."""


class Launch(NamedTuple):
    """One launch of a kernel of a .cu file.

    types: dtype of the scores, dtype of the inner loops. threads: threads a block.
    shared_memory: bytes a block. args: arrays, None for a null pointer, and numbers, by the names
    of the fields of the kernel's struct. width: width of the matrices in registers, see
    registers.cuh, or 0.
    """

    file: str
    kernel: str
    types: tuple[str, str]
    blocks: int
    threads: int
    shared_memory: int
    args: dict[str, Any]
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

    def empty(self, xp: ModuleType, size: int) -> Array:
        """Return uninitialized bytes."""

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


def kernels(file: str) -> dict[str, str]:
    """Return the kernels of a .cu file, and the struct that each takes."""
    return dict(KERNEL.findall(source(f"{file}.cu")))


class Field(NamedTuple):
    """A field of a struct.

    c_type: type of the number, or of the numbers that a pointer points to. size: of an array, or 0.
    """

    name: str
    c_type: str
    is_pointer: bool
    size: int


@cache
def fields(file: str, kernel: str) -> tuple[Struct, list[Field]]:
    """Return the layout of the struct that a kernel takes, and its fields without a default.

    The fields of a nested struct stand in its place. A default is 0 or false.
    """
    structs = dict(STRUCT.findall(source(f"{file}.cu")))
    found: list[Field] = []

    def read(struct: str) -> str:
        codes = "0q"  # aligns structs, which have pointers
        for c_type, names, default in FIELD.findall(structs[struct]):
            for name in names.split(","):
                is_pointer = "*" in name
                if not is_pointer and c_type in structs:
                    codes += read(c_type)
                elif default:
                    codes += f"0{CODES[c_type]}{calcsize(CODES[c_type])}x"
                else:
                    name, _, size = name.strip(" *]").partition("[")
                    codes += size + ("P" if is_pointer else CODES[c_type])
                    found.append(Field(name, c_type, is_pointer, int(size or 0)))
        return codes + "0q"

    return Struct(read(kernels(file)[kernel])), found


def pack(launch: Launch, address: Callable[[Array], int]) -> bytes:
    """Return the struct that a kernel takes. address: of an array.

    Raises TypeError naming the kernel and the first argument that does not fit.
    """
    layout, listed = _expected(launch.file, launch.kernel, launch.types)
    args, values = launch.args, []
    for name, dtype, size in listed:
        arg = args[name]
        if size:
            values += arg
        elif dtype is None:
            values.append(arg)
        elif arg is None:
            values.append(0)
        elif arg.dtype == dtype:
            values.append(arg.address if type(arg) is Part else address(arg))
        else:
            raise _wrong(launch, name, dtype)
    try:
        return layout.pack(*values)
    except error:
        for field in fields(launch.file, launch.kernel)[1]:
            if not field.is_pointer and not field.size:
                try:
                    Struct(CODES[field.c_type]).pack(args[field.name])
                except error:
                    raise _wrong(launch, field.name, field.c_type) from None
        raise


def _wrong(launch: Launch, name: str, expected: object) -> TypeError:
    arg = launch.args[name]
    what = getattr(arg, "dtype", type(arg).__name__)
    return TypeError(f"kernel {launch.kernel}, {name}: expected {expected}, got {what}")


@cache
def _expected(
    file: str, kernel: str, types: tuple[str, str]
) -> tuple[Struct, list[tuple[str, np.dtype | None, int]]]:
    """Return a layout, and names, dtypes of pointers and sizes of arrays of the fields."""
    names = {"Score": types[0], "Real": types[1], "int": "int32", "long long": "int64"}
    names |= {"double": "float64", "unsigned short": "uint16"}
    names |= {"signed char": "int8", "unsigned char": "uint8"}
    layout, listed = fields(file, kernel)
    return layout, [
        (field.name, np.dtype(names[field.c_type]) if field.is_pointer else None, field.size)
        for field in listed
    ]


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
                "pip install 'cupy-cuda12x>=13', or use the CPU"
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

    def empty(self, xp: ModuleType, size: int) -> Array:
        return xp.empty(size, dtype="uint8")

    def address(self, array: Array) -> int:
        return array.data.ptr

    def launch(self, launch: Launch) -> None:
        function = self._find(launch.file, launch.kernel, launch.types, launch.width)
        if launch.shared_memory > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = launch.shared_memory
        # Registers may allow fewer threads than there are tags, at 255 a thread still 256. Kernels
        # that need a number of threads need no more.
        threads = min(launch.threads, function.max_threads_per_block)
        packed = pack(launch, self.address)
        # CuPy passes an array of one value by value.
        args = (np.frombuffer(packed, f"V{len(packed)}"),)
        function((launch.blocks,), (threads,), args, shared_mem=launch.shared_memory)

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
