"""Each C++ header compiles on its own."""

import shutil
import subprocess
from pathlib import Path

import pytest

import spacy_bcrf.kernels

FOLDER = Path(spacy_bcrf.kernels.__file__).parent
HEADERS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.hh"))
COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("header", HEADERS)
def test_compiles_on_its_own(header):
    # The second time, the include guard must hide it.
    command = [COMPILER, "-std=c++17", "-fsyntax-only", "-I", FOLDER, "-x", "c++", "-"]
    text = f'#include "{header}"\n' * 2
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
