"""The engine of Ray clusters.

It uses plain actors, not Ray Data. A shard keeps its number and its file through every retry, so
the manifest counts it once. Ray Data may write the output of a repeated task twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spacy_bcrf.io.extras import require

from .engines import MAX_ATTEMPTS, THREAD_VARIABLES, describe_shard
from .shards import Finished, Shard
from .worker import BulkError, Settings, Worker


def run_ray(
    settings: Settings, n_actors: int | None, address: str | None, shards: Iterable[Shard]
) -> Iterator[Finished]:
    """Annotate by Ray actors, which load the pipeline once.

    n_actors: by default the CPUs of the cluster. address: of a cluster; None starts Ray on this
    machine, or joins the cluster of the process. All nodes need the package, the model and the
    folder of the output at the same paths. The texts travel through Ray's object store, and actors
    write the shards. Ray starts a dead actor again, on another node if its node is gone, and
    repeats its shard. BulkError if an actor cannot load the pipeline or write, or if a shard ends
    several actors.
    """
    ray = require("ray", "ray")
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    actors: list[Any] = []
    try:
        n_actors = n_actors or max(1, int(ray.cluster_resources().get("CPU", 1)))
        variables = dict.fromkeys(THREAD_VARIABLES, "1")
        make = ray.remote(
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=MAX_ATTEMPTS - 1,
            runtime_env={"env_vars": variables},
        )(_Actor)
        actors = [make.remote(settings) for _ in range(n_actors)]
        source = iter(shards)
        running: dict[Any, tuple[Any, Shard]] = {}
        for actor in actors * 2:  # one shard waits while an actor annotates another
            if (shard := next(source, None)) is not None:
                running[actor.annotate.remote(shard)] = actor, shard
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            actor, shard = running.pop(done)
            try:
                result = ray.get(done)
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                raise BulkError(f"{describe_shard(shard)}: the Ray actor died: {reason}") from None
            if isinstance(result, BulkError):
                raise result
            if (shard := next(source, None)) is not None:
                running[actor.annotate.remote(shard)] = actor, shard
            yield result
    finally:
        for actor in actors:
            ray.kill(actor)
        if started_here:
            ray.shutdown()


class _Actor:
    """A worker as a Ray actor."""

    def __init__(self, settings: Settings) -> None:
        self._worker = Worker(settings)

    def annotate(self, shard: Shard) -> Finished | BulkError:
        """Annotate a shard. An exception would become one of Ray's own."""
        try:
            return self._worker.annotate(shard)
        except BulkError as error:
            return error
