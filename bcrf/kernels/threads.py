"""The number of threads that share the sequences of a batch in the CPU kernels."""

import os
import sys
from numbers import Integral

chosen: int | None = None
"""The number of threads, None until `count` finds the default."""

_MOST = 2**31 - 1
_forked = False


def count() -> int:
    """Return the number that `set_threads` has set, or the default."""
    global chosen
    if chosen is None:
        chosen = _default()
    return chosen


def set_threads(n: int | None) -> None:
    """Set the maximum number of threads that share the sequences of a NumPy batch.

    None restores the default: the environment variable BCRF_THREADS, else OMP_NUM_THREADS, else the
    number of cores available to this process. In worker processes (forked, or started by
    multiprocessing) the default is 1 if neither variable is set. A forked process starts from the
    default. Results do not depend on the number of threads, to the last bit.

    Raises TypeError unless n is an integer or None, ValueError if n < 1 or out of int32.
    """
    global chosen
    if n is not None and (not isinstance(n, Integral) or isinstance(n, bool)):
        raise TypeError(f"the number of threads must be an integer or None, got {n!r}")
    if n is not None and not 1 <= n <= _MOST:
        raise ValueError(f"the number of threads must be from 1 to {_MOST}, got {n}")
    chosen = n


def _default() -> int:
    for variable in ("BCRF_THREADS", "OMP_NUM_THREADS"):
        # OMP_NUM_THREADS may list one number for each level of nested loops, outermost first.
        if text := os.environ.get(variable, "").split(",")[0].strip():
            if not text.isdecimal() or not 1 <= int(text) <= _MOST:
                raise ValueError(
                    f"the environment variable {variable} must be a number of threads, from 1 to "
                    f"{_MOST}, got {os.environ[variable]!r}"
                )
            return int(text)
    # The parent process has already divided the cores among its workers. Workers of multiprocessing
    # have its modules, whose import takes 10 ms.
    processes = sys.modules.get("multiprocessing.process")
    if _forked or (processes is not None and processes.parent_process() is not None):
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _after_fork() -> None:
    global chosen, _forked
    chosen, _forked = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
