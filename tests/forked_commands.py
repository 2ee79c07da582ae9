"""Run `python -m MODULE ...` in forks of a process that has already imported spaCy.

A fork starts at once, where a new interpreter imports spaCy and PyTorch for seconds. Modules run as
with `python -m`: with their own arguments, folder, output and exit status.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

CONTEXT = get_context("forkserver")


def run_module(
    arguments: Sequence[str | Path], folder: Path, log: Path, fails: bool = False
) -> str:
    """Run `python -m *arguments` in a folder. Return its output, which `log` stores.

    fails: whether the command must fail. AssertionError shows the output if that is not so.
    """
    CONTEXT.set_forkserver_preload(["pytest", "experiments.preload"])
    process = CONTEXT.Process(target=_run, args=([*map(str, arguments)], folder, log))
    process.start()
    process.join()
    output = log.read_text()
    assert (process.exitcode != 0) == fails, f"{' '.join(map(str, arguments))}\n{output}"
    return output


def run_spacy(*arguments: object, fails: bool = False) -> str:
    """Run `python -m spacy *arguments`, as `run_module` does."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        return run_module(["spacy", *map(str, arguments)], Path.cwd(), log, fails)


def _run(arguments: list[str], folder: Path, log: Path) -> None:
    os.chdir(folder)
    # `python -m` looks for modules in the current folder first.
    sys.path.insert(0, str(folder))
    sys.argv = arguments
    with log.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
