"""Fuzzing: run targets with mutated seeds for a while.

    python -m tests.fuzz --seconds 60 [TARGET ...]

Each module targets_*.py here has `TARGETS`, functions of bytes by name, and may have `SEEDS`,
lists of valid inputs by name. A target raises an exception only for a defect. Each target runs in a
forked process, so a crash or a hang ends neither the driver nor the other targets. The driver
writes the input of a failure to a file, and then exits with status 1.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import mmap
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from tests.fuzz.mutations import mutate

MAX_INPUT = 1 << 20
SECONDS_PER_INPUT = 20
Target = Callable[[bytes], None]


def find_targets() -> dict[str, tuple[Target, list[bytes]]]:
    """Import the modules of targets. Return each target and its seeds by name."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("targets_*.py")):
        module = importlib.import_module(f"tests.fuzz.{path.stem}")
        seeds = getattr(module, "SEEDS", {})
        for name, target in module.TARGETS.items():
            found[f"{path.stem.removeprefix('targets_')}:{name}"] = target, seeds.get(name, [b""])
    return found


def fuzz(
    target: Target, seeds: list[bytes], seed: str, until: float, shared: mmap.mmap
) -> NoReturn:
    """Run a target in a forked process. Exit with status 1 after a failure."""
    # An input that hangs ends the process by this signal.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    rng = random.Random(seed)
    n = 0
    while n < len(seeds) or time.monotonic() < until:
        data = seeds[n] if n < len(seeds) else mutate(rng, seeds)[:MAX_INPUT]
        n += 1
        # The parent reads the number of runs, and the input if this process dies.
        shared[:16] = n.to_bytes(8, "little") + len(data).to_bytes(8, "little")
        shared[16 : 16 + len(data)] = data
        signal.alarm(SECONDS_PER_INPUT)
        try:
            target(data)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    os._exit(0)


def run(name: str, target: Target, seeds: list[bytes], seed: int, seconds: float) -> bool:
    """Fuzz one target and show its progress. Return whether it passed."""
    shared = mmap.mmap(-1, MAX_INPUT + 16)
    start = time.monotonic()
    pid = os.fork()
    if not pid:
        fuzz(target, seeds, f"{seed} {name}", start + seconds, shared)
    with tqdm(total=round(seconds), desc=name, unit="s") as progress:
        done = status = 0
        while not done:
            time.sleep(0.2)
            done, status = os.waitpid(pid, os.WNOHANG)
            progress.set_postfix_str(f"{int.from_bytes(shared[:8], 'little')} inputs")
            progress.update(min(round(time.monotonic() - start), progress.total) - progress.n)
    if not status:
        return True
    data = shared[16 : 16 + int.from_bytes(shared[8:16], "little")]
    path = Path(f"fuzz-{name.replace(':', '-')}-{hashlib.sha1(data).hexdigest()[:12]}")
    path.write_bytes(data)
    code = os.waitstatus_to_exitcode(status)
    cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
    print(f"{name} fails with {cause}; its input is in {path}", file=sys.stderr)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description="Run fuzz targets with mutated seeds.")
    parser.add_argument("targets", nargs="*", help="parts of the names of targets; default: all")
    parser.add_argument("--seconds", type=float, default=60, help="time for all targets together")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutations")
    parser.add_argument("--input", type=Path, help="run the one target with this file only")
    args = parser.parse_args()
    parts = args.targets or [""]
    targets = {
        name: found for name, found in find_targets().items() if any(part in name for part in parts)
    }
    if not targets:
        parser.error(f"no target has a name with {' or '.join(parts)}")
    if args.input:
        if len(targets) > 1:
            parser.error(f"--input needs one target, got {', '.join(targets)}")
        ((target, _),) = targets.values()
        target(args.input.read_bytes())
        return
    share = args.seconds / len(targets)
    passed = [run(name, *found, args.seed, share) for name, found in targets.items()]
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
