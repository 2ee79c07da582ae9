"""Errors in the data of a GPU, which Python learns of at the next wait.

A check on the host would wait for the GPU in each training step. The kernels of losses therefore
note what they find in a flag on the device, which `raise_errors` reads.
"""

from typing import Any
from weakref import WeakKeyDictionary

from bcrf.kernels.backend import Array

from .gpu_batch import Batch

NONE = 2**31 - 1
PROBLEMS = "wrong tag", "not finite", "infeasible", "no token", "hole", "forbidden", "partial"
"""Names of the numbers of `Problem` in gold.cuh."""
_flags: WeakKeyDictionary[Any, Array] = WeakKeyDictionary()
"""The flag of each device, int32 (1,)."""


def error_flag(batch: Batch) -> Array:
    """Return the flag of the batch's device."""
    if batch.device not in _flags:
        _flags[batch.device] = batch.xp.full(1, NONE, dtype="int32")
    return _flags[batch.device]


def name_error(key: int) -> list[tuple[int, str]]:
    """Return the sequence and the problem in a flag, none if the flag is not set."""
    if key == NONE:
        return []
    sequence, problem = divmod(key, len(PROBLEMS))
    return [(sequence, PROBLEMS[problem])]


def take_errors() -> list[tuple[int, str]]:
    """Return the first problem of each device with its sequence, and clear the flags.

    This waits for the devices.
    """
    found = []
    for flag in _flags.values():
        key = int(flag.get()[0])
        if key != NONE:
            flag.fill(NONE)
        found += name_error(key)
    return found
