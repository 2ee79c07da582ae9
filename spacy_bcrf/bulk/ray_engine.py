"""The engine of Ray clusters.

It uses plain actors, not Ray Data. A shard keeps its number and its file through every retry, so
the manifest counts it once. Ray Data may write the output of a repeated task twice.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from bcrf.io.extras import require

from .engines import Died, run_pool
from .shards import Finished, Shard
from .worker import MAX_REASON, BulkError, RunSettings, Worker


def run_ray(
    settings: RunSettings, n_actors: int | None, address: str | None, shards: Iterable[Shard]
) -> Iterator[Finished]:
    """Annotate by Ray actors, which load the pipeline once.

    n_actors: by default the CPUs of the cluster. address: of a cluster; None starts Ray on this
    machine, or uses the connection of this process. All nodes need the package, the model and the
    folder of the output at the same paths. A new actor starts when a CPU is free, see `run_pool`.
    """
    with _connection(address) as ray:
        n_actors = n_actors or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield from run_pool(_Actors(ray, settings), settings, n_actors, shards)


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


class _Actors:
    """A pool of actors."""

    def __init__(self, ray: Any, settings: RunSettings) -> None:
        self.ray, self.settings = ray, settings
        # Ray sets OMP_NUM_THREADS to the number of CPUs. It would keep the shard of a restarted
        # actor waiting until there is a CPU for the actor.
        self.make_actor = ray.remote(num_cpus=1, max_restarts=0)(_Actor).remote
        self.calls: dict[Any, Any] = {}  # actors by the reference of the result of their call

    def start(self) -> Any:
        actor = self.make_actor(self.settings)
        self.calls[actor.get_ready.remote()] = actor
        return actor

    def give(self, worker: Any, shard: Shard) -> None:
        self.calls[worker.annotate.remote(shard)] = worker

    def wait(self) -> tuple[Any, Finished | BulkError | Died | None]:
        (done,), _ = self.ray.wait(list(self.calls), num_returns=1)
        worker = self.calls.pop(done)
        try:
            return worker, self.ray.get(done)
        except (self.ray.exceptions.RayActorError, self.ray.exceptions.OutOfMemoryError) as error:
            # Ray kills actors when a node runs out of memory, and lists all its processes.
            return worker, Died(" ".join(str(error)[:MAX_REASON].split()))

    def retire(self, worker: Any) -> None:
        self.ray.kill(worker)

    def stop(self) -> None:
        for actor in self.calls.values():
            self.ray.kill(actor)


class _Actor:
    """A worker as a Ray actor."""

    def __init__(self, settings: RunSettings) -> None:
        self._worker = Worker(settings)

    def get_ready(self) -> None:
        """Return once the pipeline is loaded."""

    def annotate(self, shard: Shard) -> Finished | BulkError:
        """Annotate a shard. An exception would become one of Ray's own."""
        try:
            return self._worker.annotate(shard)
        except BulkError as error:
            return error
