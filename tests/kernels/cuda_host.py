"""The CUDA kernels on the host, over NumPy arrays.

A C++ compiler builds them with cuda_host.hh. The package's own code launches them, as on a GPU.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from bcrf.kernels.cuda import device

HEADER = Path(__file__).with_name("cuda_host.hh")
OPTIONS = ["-std=c++17", "-O1", "-Wall", "-Wno-unknown-pragmas", "-fPIC", "-U_FORTIFY_SOURCE"]
COMPILER = shutil.which("g++") or shutil.which("clang++")
FILES = sorted(path.stem for path in device.SOURCES.glob("*.cu"))


@cache
def why_not() -> str:
    """Return why this machine cannot build the kernels, or an empty string if it can."""
    if COMPILER is None:
        return "there is no C++ compiler"
    command = [COMPILER, *OPTIONS, "-DBCRF_REAL=float", "-fsyntax-only", "-x", "c++", HEADER]
    found = subprocess.run(command, text=True, capture_output=True)
    return f"{COMPILER} cannot compile {HEADER.name}: {found.stderr}" if found.returncode else ""


class HostDevice:
    """A `device.Device` that runs kernels on the CPU.

    threads: the most threads of a block, because each costs the CPU a switch at each barrier.
        Kernels with numbers of a matrix in registers need all their threads.
    arrays: bytes of the arrays that the launches took, by address.
    """

    def __init__(self, folder: Path, threads: int = 64, shared_memory: int = 48 << 10) -> None:
        self.folder, self.threads, self.shared_memory = folder, threads, shared_memory
        self.launches: list[str] = []
        self.arrays: dict[int, int] = {}
        self.freed = False

    def current(self) -> AbstractContextManager:
        return nullcontext()

    def free(self) -> None:
        self.freed = True

    def empty(self, xp: Any, size: int) -> np.ndarray:
        array = xp.empty(size, dtype="uint8")
        array.fill(0xFF)  # scratch memory starts as NaN
        return array

    def address(self, array: np.ndarray) -> int:
        return array.ctypes.data

    def launch(self, launch: device.Launch) -> None:
        kernel, types, threads = launch.kernel, launch.types, launch.threads
        memory = launch.shared_memory
        assert memory <= self.shared_memory, f"{kernel} has {memory} bytes"
        assert threads % 32 == 0 and threads <= 1024
        self.launches.append(kernel)
        layout, fields = device.fields(launch.file, kernel)
        for array in (launch.args[field.name] for field in fields if field.is_pointer):
            if isinstance(array, np.ndarray):
                assert array.flags.c_contiguous
                self.arrays[array.ctypes.data] = array.nbytes
            elif array is not None:
                self.arrays[array.address] = array.nbytes
        library = load(self.folder, launch.file, types, launch.width)
        packed = device.pack(launch, self.address)
        assert getattr(library, f"bytes_{kernel}")() == layout.size, (
            f"{kernel}: bytes of its struct"
        )
        pointers = (ctypes.c_char_p * 1)(packed)
        function = getattr(library, f"launch_{kernel}")
        needs_all = launch.width or launch.file == "products"
        threads = threads if needs_all else min(threads, self.threads)
        outside = function(launch.blocks, threads, ctypes.c_size_t(memory), pointers)
        assert outside >= 0, f"{kernel}: not all threads of a block meet at each barrier"
        assert not outside, f"{kernel} wrote beyond its shared memory in {outside} blocks"


def numbers(part: device.Part) -> np.ndarray:
    """Return a part of scratch memory as an array."""
    offset = part.address - part.memory.ctypes.data
    return np.ndarray(part.size, part.dtype, part.memory, offset)


@cache
def load(folder: Path, file: str, types: tuple[str, str], width: int) -> ctypes.CDLL:
    """Build a shared library with a function launch_KERNEL for each kernel."""
    assert COMPILER is not None
    launches = "\n".join(
        f'extern "C" int launch_{kernel}(int blocks, int threads, size_t shared, void** args)'
        f"{{ return host::launch({kernel}, blocks, threads, shared, args); }}\n"
        f'extern "C" int bytes_{kernel}() {{ return sizeof({struct}); }}'
        for kernel, struct in device.kernels(file).items()
    )
    source = f"{device.source(f'{file}.cu')}\n{launches}\n"
    # The folder may have libraries of another version.
    name = f"{file}-{'-'.join(types)}-{width}-{sha256(source.encode()).hexdigest()[:12]}"
    library = folder / f"{name}.so"
    if not library.exists():
        # Another process may build the same library. Whichever is last replaces the other's.
        text, built = (folder / f"{name}-{os.getpid()}{suffix}" for suffix in (".cpp", ".so"))
        text.write_text(source)
        command = [COMPILER, *OPTIONS, *defines(types, width), "-include", header(folder, types)]
        subprocess.run([*command, "-shared", text, "-o", built], check=True)
        built.replace(library)
    return ctypes.CDLL(str(library))


@cache
def header(folder: Path, types: tuple[str, str]) -> Path:
    """Precompile cuda_host.hh, which takes a third of the time of most files."""
    copy = folder / f"host-{'-'.join(types)}-{os.getpid()}.hh"
    copy.write_text(HEADER.read_text())
    command = [COMPILER, *OPTIONS, *defines(types), "-x", "c++-header", copy]
    subprocess.run([*command, "-o", f"{copy}.gch"], check=True)
    return copy


def defines(types: tuple[str, str], width: int = 0) -> list[str]:
    return [option for option in device.options(types, width) if option.startswith("-D")]
