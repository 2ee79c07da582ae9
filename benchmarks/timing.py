"""Times of several contenders, measured in turns."""

import time
from collections.abc import Callable, Hashable, Mapping
from statistics import median
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)

MIN_SECONDS = 0.005
"""Minimum time of one measurement."""


def interleave(
    contenders: Mapping[Name, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, float]:
    """Return the median seconds of each contender, see `time_rounds`."""
    seconds = time_rounds(contenders, rounds, clock)
    return {name: median(times) for name, times in seconds.items()}


def time_rounds(
    contenders: Mapping[Name, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, list[float]]:
    """Return the seconds of each contender in rounds A B C A B C ...

    Other load on the machine thus slows all contenders alike. Warm-up calls come first and do not
    count. A measurement repeats a short call until it takes MIN_SECONDS, because the other
    contenders leave the caches cold for its first call.
    """
    calls = {name: count_calls(run) for name, run in contenders.items()}
    seconds: dict[Name, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            for _ in range(calls[name]):
                run()
            seconds[name].append((clock() - start) / calls[name])
    return seconds


def clock_of(threads: int) -> Callable[[], float]:
    """Return the clock of a benchmark: processor time, which other load changes less, or wall time.

    Processor time adds up threads, so it measures one thread only.
    """
    return time.process_time if threads == 1 else time.perf_counter


def count_calls(run: Callable[[], object]) -> int:
    """Return the number of calls that take MIN_SECONDS, after one that may load or compile."""
    run()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        if time.perf_counter() - start >= MIN_SECONDS:
            return calls
        calls *= 2
