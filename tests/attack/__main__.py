"""Attack annotation, models and pages with random cases for a while.

    python -m tests.attack --minutes 10 [--seed SEED]

Each case is a function of a random generator, whose seed the driver prints if the case fails;
`--seed` repeats this case alone. A case raises AssertionError for a defect, and any other exception
is one. Cases run in forked processes with a limit of memory and of time. At the end the driver
prints how many cases of each kind ran. docs/reliability.md has the table of what they try.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.attack import cases

MEMORY = 1 << 30
"""Address space of a case beyond that of the driver."""
SECONDS = 600
"""Time of a case, which takes seconds: the machine may be slow and busy."""


def run_case(seed: int, model: Path) -> bool:
    """Run the case of a seed in a forked process. RETURNS whether it has passed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + MEMORY
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
            with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
                os.chdir(name)
                kind_of(seed)(random.Random(seed), model)
                os.chdir("/")
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    # An alarm of the case would not do: the time limits of `annotate` use the same timer.
    end = time.monotonic() + SECONDS
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    _, status = done
    if status:
        print(
            f"{kind_of(seed).__name__} failed (status {status}); repeat it with: "
            f"make attack SEED={seed}",
            flush=True,
        )
    return not status


def kind_of(seed: int) -> cases.Case:
    """Return the kind of case that a seed has."""
    return cases.CASES[seed % len(cases.CASES)]


def main() -> int:
    """Run the command. RETURNS the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        model = cases.make_model(Path(folder) / "model")
        if arguments.seed is not None:
            return int(not run_case(arguments.seed, model))
        start, end = time.time_ns() // 1000, time.monotonic() + 60 * arguments.minutes
        n_run: Counter[str] = Counter()
        n_failed: Counter[str] = Counter()
        seed = start
        while time.monotonic() < end:
            name = kind_of(seed).__name__
            n_run[name] += 1
            n_failed[name] += not run_case(seed, model)
            seed += 1
    print(f"seeds {start} to {seed - 1}")
    for name, n in sorted(n_run.items()):
        print(f"{name:12} {n:6} cases, {n_failed[name]} failed")
    return int(n_failed.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
