"""Engines: run workers over shards, in this process or in processes of their own.

An engine takes shards and yields finished ones in any order. It reads shards only
as workers need them, so memory does not grow with the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import wait
from typing import Any

from spacy_bcrf.corpora.texts import Rejected

from .processes import Child
from .shards import Finished, Shard
from .worker import BulkError, Settings, Worker

Engine = Callable[[Iterable[Shard]], Iterator[Finished]]

MAX_ATTEMPTS = 3
"""After so many dead workers, a shard is annotated one document at a time."""
MAX_SET_ASIDE = 10
"""Documents of a shard that are set aside because workers died. After them the run stops."""


def run_here(worker: Worker, shards: Iterable[Shard]) -> Iterator[Finished]:
    """Annotate in this process."""
    return map(worker.annotate, shards)


def run_processes(
    settings: Settings, n_processes: int, shards: Iterable[Shard]
) -> Iterator[Finished]:
    """Annotate in new processes of one thread each.

    The texts of a shard go to a process, which writes the shard's file. Only counts and failures
    come back. If a process dies, a new one gets its shard, see `after_death`. Processes end when
    their parent does. BulkError if a process cannot load the pipeline or write, or if several
    processes die before their first shard or with the same one.
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
                    if shard is not None:
                        again.append(after_death(settings, shard, attempts[shard.number], end))
                    elif (n_unready := n_unready + 1) == MAX_ATTEMPTS:
                        raise BulkError(
                            f"{MAX_ATTEMPTS} processes ended before their first shard ({end})"
                        ) from None
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


def after_death(settings: Settings, shard: Shard, n_deaths: int, end: str) -> Shard:
    """Return a shard to annotate again, after its worker died.

    n_deaths: of workers with this shard. end: how the worker ended. A careful worker notes which
    document it annotates. If it dies, this document is set aside. BulkError if that does not help.
    """
    if n_deaths < MAX_ATTEMPTS or not shard.careful:
        return shard._replace(careful=n_deaths >= MAX_ATTEMPTS)
    note = settings.note_path(shard.number)
    if not note.exists() or n_deaths > MAX_ATTEMPTS + MAX_SET_ASIDE:
        raise BulkError(
            f"{describe_shard(shard)}: {n_deaths} workers died ({end}). The memory may be too "
            "small: use fewer processes or smaller shards"
        )
    i = int(note.read_text(encoding="utf8"))
    note.unlink()
    items = [*shard.items]
    reason = f"set aside: {n_deaths} workers died, the last one with this document ({end})"
    items[i] = Rejected(items[i].id, items[i].place, reason)
    return shard._replace(items=items)


def describe_shard(shard: Shard) -> str:
    """Name a shard by its number and its first and last document."""
    return f"shard {shard.number}, {shard.items[0].place} to {shard.items[-1].place}"
