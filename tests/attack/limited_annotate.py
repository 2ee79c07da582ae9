"""Annotate files with little more memory than an idle process has. Run as a script.

Arguments: a model, the folder of all outputs, and input files. Prints the exit code for each file,
and the peak of the memory in MiB beyond that of the idle process, as JSON.
"""

import json
import resource
import sys
from pathlib import Path

from typer.testing import CliRunner

MORE = 220 << 20
"""Address space for the work. An idle process has 250 MiB, with PyTorch 500 MiB more."""


def annotate(model: str, name: str, output: Path) -> int:
    """Return the exit code."""
    from spacy_bcrf.cli import app

    result = CliRunner().invoke(app, ["annotate", model, name, "-o", str(output), "-p", "tagger"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code


def main(model: str, folder: str, *names: str) -> None:
    """Annotate each file into a folder of its own."""
    warm = Path(folder) / "warm.txt"
    warm.write_text("Ann saw Rome .")
    annotate(model, str(warm), Path(folder) / "warm")
    size = resource.getpagesize()
    pages, resident = map(int, Path("/proc/self/statm").read_text().split()[:2])
    limit = pages * size + MORE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name in names:
        code = annotate(model, name, Path(folder) / f"out-{Path(name).name}")
        # getrusage counts the memory of the parent before exec too.
        status = Path("/proc/self/status").read_text()
        peak = (int(status.split("VmHWM:")[1].split()[0]) * 1024 - resident * size) >> 20
        print(json.dumps({"file": Path(name).name, "exit": code, "MiB": peak}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
