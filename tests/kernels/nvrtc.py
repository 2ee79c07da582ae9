"""The CUDA kernels compiled by NVRTC with the options of CuPy, without a GPU.

    python -m tests.kernels.nvrtc [FILE ...]

prints the registers and the spilled bytes of each kernel on two architectures. It needs the extra
nvrtc.
"""

from __future__ import annotations

import ctypes
import re
import sys
from functools import cache
from importlib.util import find_spec
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

KERNEL = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.DOTALL,
)


class Resources(NamedTuple):
    """What a thread of a kernel takes: registers, and bytes that the compiler spills to memory."""

    registers: int
    spilled: int


def find_library() -> Path | None:
    """Return the library of NVRTC in the packages nvidia-cuda-nvrtc of PyPI, or None."""
    spec = find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else None
    found = [path for folder in folders or () for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    return max(found, default=None)


@cache
def _library() -> ctypes.CDLL:
    path = find_library()
    if path is None:
        raise ImportError("NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")
    return ctypes.CDLL(str(path))


def widths(file: str, types: tuple[str, str]) -> list[int]:
    """Return widths of a file's matrices, the largest one last."""
    if file not in WIDE:
        return [0]
    return [0, 16, COLUMN_BYTES // np.dtype(types[1]).itemsize]


def compile_kernels(
    file: str, types: tuple[str, str], architecture: str, width: int
) -> dict[str, Resources]:
    """Compile a .cu file to machine code. Return the resources of each kernel.

    Raises RuntimeError with the compiler's messages.
    """
    library, program = _library(), ctypes.c_void_p()
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
        kernel: Resources(int(registers), int(stores) + int(loads))
        for kernel, stores, loads, registers in KERNEL.findall(log)
    }


def main() -> None:
    for file in sys.argv[1:] or FILES:
        for types in TYPES:
            for architecture in ARCHITECTURES:
                for width in widths(file, types):
                    found = compile_kernels(file, types, architecture, width)
                    for kernel, resources in found.items():
                        print(file, kernel, width, *types, architecture, *resources, sep="\t")


if __name__ == "__main__":
    main()
