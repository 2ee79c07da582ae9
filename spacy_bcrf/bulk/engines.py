"""Engines: run workers over shards, in this process, in `processes` or by `ray_engine`.

An engine takes shards and yields finished ones in any order. It reads shards only
as workers need them, so memory does not grow with the input.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from spacy_bcrf.corpora.texts import Rejected

from .shards import Finished, Shard
from .worker import BulkError, RunSettings, Worker

Engine = Callable[[Iterable[Shard]], Iterator[Finished]]

MAX_ATTEMPTS = 3
"""After this many dead workers, a shard is annotated one document at a time."""
MAX_SET_ASIDE = 10
"""Documents of a shard that are set aside because workers died. After them the run stops."""


def run_here(worker: Worker, shards: Iterable[Shard]) -> Iterator[Finished]:
    return map(worker.annotate, shards)


class Died(NamedTuple):
    """The death of a worker, in place of its result. end: how it ended."""

    end: str


class Pool(Protocol):
    """Workers in processes of their own. A worker sends None once it is ready."""

    def start(self) -> Any:
        """Start a worker. RETURNS a name for it."""

    def give(self, worker: Any, shard: Shard) -> None:
        """Let a worker annotate a shard."""

    def wait(self) -> tuple[Any, Finished | BulkError | Died | None]:
        """Return the next worker with a result, and the result."""

    def retire(self, worker: Any) -> None:
        """End a worker that has no shard."""

    def stop(self) -> None:
        """End all workers."""


def run_pool(
    pool: Pool, settings: RunSettings, n_workers: int, shards: Iterable[Shard]
) -> Iterator[Finished]:
    """Annotate by the workers of a pool, which write the files of the shards.

    If a worker dies, the next free one gets its shard, see `after_death`, and a new worker starts.
    BulkError if a worker cannot load or write, or if several die before or with one shard.
    """
    source = iter(shards)
    again: list[Shard] = []
    attempts: Counter[int] = Counter()
    n_unready = 0  # workers that died before one was ready
    try:
        working: dict[Any, Shard | None] = {pool.start(): None for _ in range(n_workers)}
        following = next(source, None)  # read ahead while all workers work
        while following or again or any(working.values()):
            worker, result = pool.wait()
            shard = working.pop(worker)
            if isinstance(result, BulkError):
                raise result
            if isinstance(result, Died):
                if shard is not None:
                    again.append(after_death(settings, shard, attempts[shard.number], result.end))
                elif (n_unready := n_unready + 1) == MAX_ATTEMPTS:
                    raise BulkError(
                        f"{MAX_ATTEMPTS} workers ended before their first shard ({result.end})"
                    )
                working[pool.start()] = None
                continue
            if more := again.pop() if again else following:
                attempts[more.number] += 1
                working[worker] = more
                pool.give(worker, more)
                following = next(source, None) if more is following else following
            else:
                pool.retire(worker)
            if result is None:
                n_unready = 0
            else:
                del attempts[result.number]
                yield result
    finally:
        pool.stop()


def after_death(settings: RunSettings, shard: Shard, n_deaths: int, end: str) -> Shard:
    """Return a shard to annotate again after n_deaths of its workers. end: how the last one ended.

    A careful worker notes its document, which is set aside if it dies. BulkError if it still dies.
    """
    if n_deaths < MAX_ATTEMPTS or not shard.careful:
        return shard._replace(careful=n_deaths >= MAX_ATTEMPTS)
    note = settings.note_path(shard.number)
    if not note.exists() or n_deaths > MAX_ATTEMPTS + MAX_SET_ASIDE:
        raise BulkError(
            f"shard {shard.number}, {shard.items[0].place} to {shard.items[-1].place}: {n_deaths} "
            f"workers died ({end}). The memory may be too small: use fewer processes or smaller "
            "shards"
        )
    i = int(note.read_text(encoding="utf8"))
    note.unlink()
    items = [*shard.items]
    reason = f"set aside: {n_deaths} workers died, the last one with this document ({end})"
    items[i] = Rejected(items[i].id, items[i].place, reason)
    return shard._replace(items=items)
