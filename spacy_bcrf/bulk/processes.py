"""The engine of child processes of one thread, each with a pipe to this one."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import Any

from .engines import Died, run_pool
from .shards import Finished, Shard
from .worker import BulkError, RunSettings, Worker

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BCRF_THREADS")

STARTS = 10
"""A process is started this many times if it may start a moment later."""
PASSING = errno.EAGAIN, errno.ENOMEM, errno.EINTR
PATIENCE = 5.0
"""Seconds that a process has to end by itself."""


def run_processes(
    settings: RunSettings, n_processes: int, shards: Iterable[Shard]
) -> Iterator[Finished]:
    """Annotate in new processes of one thread each, see `run_pool`. They end when this one does."""
    return run_pool(_Processes(settings), settings, n_processes, shards)


class _Processes:
    """A pool of processes."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.children: dict[Any, Child] = {}

    def start(self) -> Any:
        child = Child(_serve, self.settings)
        self.children[child.connection] = child
        return child.connection

    def give(self, worker: Any, shard: Shard) -> None:
        self.children[worker].send(shard)

    def wait(self) -> tuple[Any, Finished | BulkError | Died | None]:
        worker: Any = wait(list(self.children))[0]
        try:
            return worker, worker.recv()
        except (EOFError, OSError):
            return worker, Died(self.children.pop(worker).stop())

    def retire(self, worker: Any) -> None:
        self.children.pop(worker).stop(kill=True)

    def stop(self) -> None:
        for child in self.children.values():
            child.stop(kill=True)


def _serve(settings: RunSettings, connection: Any) -> None:
    """Annotate shards until the parent ends."""
    try:
        worker = Worker(settings)
        connection.send(None)
        while True:
            connection.send(worker.annotate(connection.recv()))
    except BulkError as error:
        connection.send(error)


class Child:
    """A process that runs `target(argument, connection)` of a module. OSError if none can start."""

    def __init__(self, target: Callable[[Any, Any], None], argument: Any) -> None:
        # A child forked from here would hold the pipes of the others open, and outlive its parent.
        context: Any = get_context("forkserver" if sys.platform == "linux" else "spawn")
        context.set_forkserver_preload([target.__module__])
        for left in range(STARTS)[::-1]:
            self.connection, child = context.Pipe()
            arguments = target, argument, child
            self._process = context.Process(target=_run, args=arguments, daemon=True)
            try:
                with one_thread():
                    self._process.start()
                return
            except (EOFError, OSError) as error:
                # The fork server was killed, and a new one starts once the system has ended it; or
                # the system has too few processes or too little memory for now.
                may_pass = isinstance(error, EOFError | ConnectionError) or error.errno in PASSING
                self.connection.close()
                if not (left and may_pass):
                    raise OSError(f"no process can be started ({error!r})") from error
                time.sleep(0.2)
            finally:
                child.close()

    def send(self, message: Any) -> None:
        """Send a message. The next `receive` finds a dead process."""
        with suppress(OSError):
            self.connection.send(message)

    def stop(self, kill: bool = False) -> str:
        """End the process, by force if it does not end by itself. RETURNS its name and end."""
        if not kill:
            self._process.join(PATIENCE)
        self._process.kill()
        self._process.join(PATIENCE)
        self.connection.close()
        code = self._process.exitcode
        end = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"process {self._process.pid}, {end}"


def _run(target: Callable[[Any, Any], None], argument: Any, connection: Any) -> None:
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        target(argument, connection)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let new processes use one thread each. Libraries read the variables when they load."""
    old = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name in THREAD_VARIABLES:
            del os.environ[name]
        os.environ.update(old)
