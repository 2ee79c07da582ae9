"""The machine, versions and commit of a measurement."""

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lab import ROOT


def describe_machine(packages: Sequence[str]) -> str:
    """Name the processor, cores, load and versions, in two lines."""
    named = [f"spacy-bcrf {version('spacy-bcrf')}", *map(_name_version, packages)]
    return (
        f"{name_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
        f"Python {platform.python_version()}, {', '.join(named)}"
    )


def _name_version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def name_processor() -> str:
    """Name the processor, or its architecture where the system has no name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def find_commit() -> str:
    """Return the commit of the clone, with "+" if files differ from it; "unknown" without git."""
    git = ["git", "-C", str(ROOT)]
    head = [*git, "rev-parse", "--short=7", "HEAD"]
    try:
        commit = subprocess.run(head, capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "bcrf", "spacy_bcrf"])
    except OSError:
        return "unknown"
    if commit.returncode:
        return "unknown"
    return f"{commit.stdout.strip()}{'+' if changed.returncode else ''}"
