"""A copy of the sources without compiled modules, and commands that run in it."""

import shutil
import subprocess
import sys
from pathlib import Path

import bcrf


def copy_sources(folder):
    """Copy both packages, which then come before the installed ones. Returns the folder."""
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "*.cpp", "__pycache__")
    for package in ("bcrf", "spacy_bcrf"):
        source = Path(bcrf.__file__).parents[1] / package
        shutil.copytree(source, folder / package, ignore=ignored)
    return folder


def run(folder, *arguments):
    """Run Python in the folder."""
    command = [sys.executable, *arguments]
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
