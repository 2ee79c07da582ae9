"""Run `python -m MODULE ...` in forks of a process that has already imported spaCy.

A fork starts at once, where a new interpreter imports spaCy and PyTorch for seconds. Modules run as
with `python -m`: with their own arguments, folder, output and exit status.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import forkserver, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from light_spacy import make_light

CONTEXT = get_context("forkserver")
ROOT = Path(__file__).resolve().parent.parent


def start_server() -> None:
    """Start the process that forks, if it does not run.

    A process has one server, and whoever starts it chooses what it imports. The server finds
    `lab` in its current folder only, and leaves out a module that it does not find.
    """
    CONTEXT.set_forkserver_preload(["pytest", "lab.preload"])
    current = Path.cwd()
    os.chdir(ROOT)
    try:
        forkserver.ensure_running()
    finally:
        os.chdir(current)


def start_module(arguments: Sequence[object], folder: Path, log: Path) -> BaseProcess:
    """Start `python -m *arguments` in a folder. `log` stores its output."""
    start_server()
    # The server has the environment of its start.
    args = ([*map(str, arguments)], folder, log, dict(os.environ))
    process = CONTEXT.Process(target=_run, args=args)
    process.start()
    return process


def run_module(arguments: Sequence[object], folder: Path, log: Path) -> str:
    """Run `python -m *arguments` in a folder. Return its output, which `log` stores.

    AssertionError shows the output of a command that fails.
    """
    process = start_module(arguments, folder, log)
    process.join()
    output = log.read_text()
    assert process.exitcode == 0, f"{' '.join(map(str, arguments))}\n{output}"
    return output


def _run(arguments: list[str], folder: Path, log: Path, environ: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    # `python -m` looks for modules in the current folder first.
    sys.path.insert(0, str(folder))
    sys.argv = arguments
    with log.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    make_light()  # as the process of the tests
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
