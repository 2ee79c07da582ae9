"""The CUDA kernels compiled by NVRTC with the options of CuPy, without a GPU.

    python -m tests.kernels.nvrtc [FILE ...]

prints the bytes of the stack, the spilled bytes and the registers of each function on two
architectures. It needs the extra nvrtc.
"""

from __future__ import annotations

import ctypes
import re
import sys
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bcrf.kernels.cuda import device
from bcrf.kernels.cuda.prepare import COLUMN_BYTES

ARCHITECTURES = ["sm_75", "sm_90"]
TYPES = [("float32", "float32"), ("float64", "float64"), ("float32", "float64")]
FILES = sorted(path.stem for path in device.SOURCES.glob("*.cu"))
WIDE = {path.stem for path in device.SOURCES.glob("*.cu") if "WIDTH" in path.read_text()}
"""Files whose kernels can hold matrices in registers."""

# A function that the compiler does not inline has such a part too, without registers of its own.
FUNCTION = re.compile(
    r"Function properties for (\w+)\s+ptxas\s+\.?\s*(\d+) bytes stack frame, (\d+) bytes spill "
    r"stores, (\d+) bytes spill loads(?:\s+ptxas info\s+: Used (\d+) registers)?"
)


class Resources(NamedTuple):
    """What a thread takes in a function: bytes of its stack, spilled bytes, and registers."""

    stack: int
    spilled: int
    registers: int


VERSIONS = ("12", "13")
"""Of CUDA. Tests have the same names without the extra, so that `make skipped` finds them."""


@cache
def find_libraries() -> dict[str, Path]:
    """Return NVRTC's libraries in the packages of the extra nvrtc, by CUDA's version."""
    spec = find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else None
    found = [path for folder in folders or () for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    return {path.suffix[1:]: path for path in sorted(found) if "builtins" not in path.name}


def widths(file: str, types: tuple[str, str]) -> list[int]:
    """Return widths of a file's matrices, the largest one last."""
    if file not in WIDE:
        return [0]
    return [0, 16, COLUMN_BYTES // np.dtype(types[1]).itemsize]


def compile_kernels(
    file: str, types: tuple[str, str], architecture: str, width: int, version: str
) -> dict[str, Resources]:
    """Compile a .cu file to machine code. Return the resources of each function.

    version: of CUDA, see `find_libraries`. Raises RuntimeError with the compiler's messages.
    """
    library, program = ctypes.CDLL(str(find_libraries()[version])), ctypes.c_void_p()
    source = device.source(f"{file}.cu").encode()
    library.nvrtcCreateProgram(ctypes.byref(program), source, f"{file}.cu".encode(), 0, None, None)
    # CuPy adds the last two to the options of a RawModule.
    options = (
        *device.options(types, width),
        "-ftz=true",
        f"-arch={architecture}",
        "--ptxas-options=-v",
    )
    listed = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = library.nvrtcCompileProgram(program, len(options), listed)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, buffer)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    log = buffer.value.decode()
    if failed or "warning" in log:
        raise RuntimeError(f"{file}.cu with {' '.join(options)}:\n{log}")
    return {
        name: Resources(int(stack), int(stores) + int(loads), int(registers or 0))
        for name, stack, stores, loads, registers in FUNCTION.findall(log)
    }


def main() -> None:
    if not find_libraries():
        raise SystemExit("NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvrtc")
    for version, file, types, architecture in product(
        find_libraries(), sys.argv[1:] or FILES, TYPES, ARCHITECTURES
    ):
        for width in widths(file, types):
            found = compile_kernels(file, types, architecture, width, version)
            for name, resources in found.items():
                print(version, file, name, width, *types, architecture, *resources, sep="\t")


if __name__ == "__main__":
    main()
