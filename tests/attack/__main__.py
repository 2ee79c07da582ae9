"""Attack annotation, models and pages with random cases for a while.

    python -m tests.attack --minutes 10 [--seed SEED]

Hypothesis draws the cases, a few of one kind for each seed. The driver prints the seed of a case
that fails, and `--seed` repeats and shrinks it. Cases run in forked processes with a limit of
memory and of time. At the end the driver prints how many cases of each kind ran.
docs/reliability.md has the table of what they try.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.attack.cases import CASES, make_model

MEMORY = 1 << 30
"""Address space of a case beyond that of the driver."""
SECONDS = 600
"""Time of a case, which takes seconds: the machine may be slow and busy."""
CASES_OF_A_SEED = 5


def run_case(case: Callable[..., None], model: Path, arguments: dict[str, Any]) -> None:
    """Run a case in a forked process. AssertionError with its traceback if it fails."""
    with TemporaryFile("w+") as log:
        child = os.fork()
        if child == 0:
            _run_here(partial(case, model, **arguments), log)
        # An alarm of the case would not do: the time limits of `annotate` use the same timer.
        end = time.monotonic() + SECONDS
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        log.seek(0)
        assert done[1] == 0, f"status {done[1]}\n{log.read()[-5000:]}"


def _run_here(case: Callable[[], None], log: IO[str]) -> None:
    """Run a case in a new folder and end the process."""
    code = 1
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
            os.chdir(name)
            case()
            os.chdir("/")
        code = 0
    except BaseException:
        traceback.print_exc(file=log)
    finally:
        log.flush()
        os._exit(code)


def run_seed(number: int, model: Path, n_run: Counter[str], phases: Sequence[Phase]) -> bool:
    """Run the cases of a seed. RETURNS whether they have passed."""
    case, strategies = CASES[number % len(CASES)]

    @seed(number)
    @settings(
        max_examples=CASES_OF_A_SEED,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    @given(**strategies)
    def run(**arguments: Any) -> None:
        n_run[case.__name__] += 1
        run_case(case, model, arguments)

    try:
        run()
    except BaseException as error:
        traceback.print_exception(error)
        print(f"{case.__name__} failed; repeat it with: make attack SEED={number}", flush=True)
        if not isinstance(error, Exception):
            raise
        return False
    return True


def main() -> int:
    """Run the command. RETURNS the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=1, help="0: each once, equal cases")
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    n_run: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "model")
        if arguments.seed is not None:
            return int(not run_seed(arguments.seed, model, n_run, list(Phase)))
        # CI repeats its cases: a new failure then comes from a change.
        start = time.time_ns() // 1_000_000 if arguments.minutes else 0
        end = time.monotonic() + 60 * arguments.minutes
        number, n_failed = start, 0
        while time.monotonic() < end or number < start + len(CASES):  # each case once
            n_failed += not run_seed(number, model, n_run, [Phase.generate])
            number += 1
    print(f"seeds {start} to {number - 1}: {n_failed} failed")
    for name, n in sorted(n_run.items()):
        print(f"{name:12} {n:6} cases")
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
