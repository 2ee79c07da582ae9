"""Processes: their threads and their memory."""

import os
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def use_one_thread() -> None:
    """Limit the numerical libraries to one thread in all processes that start from now on."""
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"


def in_own_process(run: Callable[..., Result], *args: object) -> Result:
    """Call `run` in a fresh process whose numerical libraries use one thread."""
    use_one_thread()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, *args).result()


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux ru_maxrss includes the memory of the parent process.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
