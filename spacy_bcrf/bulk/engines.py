"""Engines: run workers over shards, in this process or in processes of their own.

An engine takes shards and yields finished ones in any order. It reads shards only
as workers need them, so memory does not grow with the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import wait
from typing import Any

from .processes import Child
from .shards import Finished, Shard
from .worker import BulkError, Settings, Worker

Engine = Callable[[Iterable[Shard]], Iterator[Finished]]

MAX_ATTEMPTS = 3
"""A shard whose worker dies so many times ends the run."""


def run_here(worker: Worker, shards: Iterable[Shard]) -> Iterator[Finished]:
    """Annotate in this process."""
    return map(worker.annotate, shards)


def run_processes(
    settings: Settings, n_processes: int, shards: Iterable[Shard]
) -> Iterator[Finished]:
    """Annotate in new processes of one thread each.

    The texts of a shard go to a process, which writes the shard's file. Only counts and failures
    come back. If a process dies, a new one gets its shard. Processes end when their parent does.
    BulkError if a process cannot load the pipeline or write, or if several processes die before
    their first shard or with the same one.
    """
    source = iter(shards)
    again: list[Shard] = []
    attempts: Counter[int] = Counter()
    n_unready = 0  # processes that died before their first shard
    pool: dict[Any, _Process] = {}
    try:
        for _ in range(n_processes):
            _start(pool, settings)
        # Read ahead while all processes work.
        following = next(source, None)
        while pool:
            for connection in wait(list(pool)):
                process = pool[connection]
                try:
                    result = process.receive()
                except (EOFError, OSError):
                    del pool[connection]
                    end = process.stop()
                    shard = process.shard
                    n_unready += shard is None
                    n_deaths = n_unready if shard is None else attempts[shard.number]
                    if n_deaths == MAX_ATTEMPTS:
                        raise BulkError(_describe_death(shard, end)) from None
                    if shard is not None:
                        again.append(shard)
                    _start(pool, settings)
                    continue
                if isinstance(result, BulkError):
                    raise result
                shard = again.pop() if again else following
                process.shard = shard
                process.send(shard)
                if shard is None:
                    del pool[connection]
                    process.stop()
                else:
                    attempts[shard.number] += 1
                    if shard is following:
                        following = next(source, None)
                if result is not None:
                    del attempts[result.number]
                    yield result
    finally:
        for process in pool.values():
            process.stop(kill=True)


class _Process(Child):
    """A process of a worker. shard: the one that it annotates."""

    shard: Shard | None = None


def _start(pool: dict[Any, _Process], settings: Settings) -> None:
    process = _Process(_serve, settings)
    pool[process.connection] = process


def _serve(settings: Settings, connection: Any) -> None:
    """Annotate shards until None comes or the parent ends."""
    try:
        worker = Worker(settings)
        connection.send(None)
        while (shard := connection.recv()) is not None:
            connection.send(worker.annotate(shard))
    except BulkError as error:
        connection.send(error)


def _describe_death(shard: Shard | None, end: str) -> str:
    if shard is None:
        return f"{MAX_ATTEMPTS} processes ended before their first shard ({end})"
    return (
        f"{describe_shard(shard)}: {MAX_ATTEMPTS} processes died ({end}). The memory may be too "
        "small: use fewer processes or smaller shards"
    )


def describe_shard(shard: Shard) -> str:
    """Name a shard by its number and its first and last document."""
    return f"shard {shard.number}, {shard.items[0].place} to {shard.items[-1].place}"
