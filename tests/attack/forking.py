"""Forks beside threads: a lock that a thread holds then stays locked for ever in the fork."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

SECONDS = 60
"""Time of a fork, which takes milliseconds."""


def fork_beside(compute: Callable[[], Any], n: int, n_threads: int = 2) -> None:
    """Compute in n forks, one after the other, while threads compute the same again and again.

    AssertionError if a fork hangs or finds something else.
    """
    # Python 3.12 warns of forks beside threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    expected, ended = compute(), threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            compute()

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(n):
            child = os.fork()
            if child == 0:
                os._exit(compute() != expected)
            end = time.monotonic() + SECONDS
            while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
                assert time.monotonic() < end, "a fork hangs"
                time.sleep(0.001)
            assert done[1] == 0, "a fork fails"
    finally:
        ended.set()
        for thread in threads:
            thread.join()
