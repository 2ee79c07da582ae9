"""The engine of Ray clusters.

It uses plain actors, not Ray Data. A shard keeps its number and its file through every retry, so
the manifest counts it once. Ray Data may write the output of a repeated task twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bcrf.io.extras import require

from .engines import MAX_ATTEMPTS, Died, run_pool
from .learner import Learned, Learner, Share, raise_error
from .shards import Finished, Shard
from .worker import MAX_REASON, BulkError, Settings, Worker


def run_ray(
    settings: Settings, n_actors: int | None, address: str | None, shards: Iterable[Shard]
) -> Iterator[Finished]:
    """Annotate by Ray actors, which load the pipeline once.

    n_actors: by default the CPUs of the cluster. address: of a cluster; None starts Ray on this
    machine, or uses the connection of this process. All nodes need the package, the model and the
    folder of the output at the same paths. The texts travel through Ray's object store, and actors
    write the shards. A new actor starts as soon as there is a CPU for it, see `run_pool`.
    """
    with _connection(address) as ray:
        n_actors = n_actors or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield from run_pool(_Actors(ray, settings), settings, n_actors, shards)


@contextmanager
def ray_learners(
    shares: Sequence[Share], address: str | None
) -> Iterator[Callable[[bytes, int], list[Learned]]]:
    """Start an actor for each share, as `mixing.process_learners` starts processes.

    An actor that dies starts again and repeats its pass. BulkError if it dies several times.
    """
    with _connection(address) as ray:
        retries = {"max_restarts": MAX_ATTEMPTS, "max_task_retries": MAX_ATTEMPTS}
        actors = [_make_actor(ray, _LearnerActor, share, **retries) for share in shares]

        def make_pass(chain: bytes, seed: int) -> list[Learned]:
            sent = ray.put(chain)
            try:
                return list(
                    map(raise_error, ray.get([actor.learn.remote(sent, seed) for actor in actors]))
                )
            except _deaths(ray) as error:
                raise BulkError(
                    f"a Ray actor died; the finished rounds stay: {_reason(error)}"
                ) from None

        try:
            yield make_pass
        finally:
            for actor in actors:
                ray.kill(actor)


@contextmanager
def _connection(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, or use the connection that this process has. Yields the module ray."""
    ray = require("ray", "ray")
    started_here = not ray.is_initialized()
    if started_here:
        # Otherwise Ray's workers have a lower priority than the processes of `run_processes`.
        os.environ.setdefault("RAY_worker_niceness", "0")
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    try:
        yield ray
    finally:
        if started_here:
            ray.shutdown()


def _make_actor(ray: Any, kind: type, argument: Any, **options: Any) -> Any:
    """Start an actor of one CPU. Ray sets OMP_NUM_THREADS to the number of CPUs."""
    return ray.remote(num_cpus=1, **options)(kind).remote(argument)


def _deaths(ray: Any) -> tuple[type[Exception], ...]:
    """Return the errors of a dead actor. Ray kills actors when a node runs out of memory."""
    return ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError


def _reason(error: Exception) -> str:
    """Return the start of a message in one line. Ray lists all processes if memory is short."""
    return " ".join(str(error)[:MAX_REASON].split())


class _Actors:
    """A pool of actors."""

    def __init__(self, ray: Any, settings: Settings) -> None:
        self.ray, self.settings = ray, settings
        self.calls: dict[Any, Any] = {}
        """The actors by the reference of the result of their call."""

    def start(self) -> Any:
        # Ray would keep a restarted actor's shard waiting until there is a CPU for the actor.
        actor = _make_actor(self.ray, _Actor, self.settings, max_restarts=0)
        self.calls[actor.get_ready.remote()] = actor
        return actor

    def give(self, worker: Any, shard: Shard) -> None:
        self.calls[worker.annotate.remote(shard)] = worker

    def wait(self) -> tuple[Any, Finished | BulkError | Died | None]:
        (done,), _ = self.ray.wait(list(self.calls), num_returns=1)
        worker = self.calls.pop(done)
        try:
            return worker, self.ray.get(done)
        except _deaths(self.ray) as error:
            return worker, Died(_reason(error))

    def retire(self, worker: Any) -> None:
        self.ray.kill(worker)

    def stop(self) -> None:
        for actor in self.calls.values():
            self.ray.kill(actor)


class _Actor:
    """A worker as a Ray actor."""

    def __init__(self, settings: Settings) -> None:
        self._worker = Worker(settings)

    def get_ready(self) -> None:
        """Return once the pipeline is loaded."""

    def annotate(self, shard: Shard) -> Finished | BulkError:
        """Annotate a shard. An exception would become one of Ray's own."""
        try:
            return self._worker.annotate(shard)
        except BulkError as error:
            return error


class _LearnerActor:
    """A learner as a Ray actor."""

    def __init__(self, share: Share) -> None:
        self._learner = Learner(share)

    def learn(self, chain: bytes, seed: int) -> Learned | ValueError:
        """Make a pass. An exception would become one of Ray's own."""
        try:
            return self._learner.learn(chain, seed)
        except ValueError as error:
            return ValueError(str(error))
