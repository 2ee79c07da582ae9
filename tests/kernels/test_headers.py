"""Each C++ header compiles on its own."""

import re
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


def test_all_headers_of_an_instruction_set_are_compiled_again():
    """Their include guards are undefined between the passes of targets.hh."""
    forgotten = set(re.findall(r"#undef (\w+)", (FOLDER / "cpu/forget_guards.hh").read_text()))
    for header in HEADERS:
        text = (FOLDER / header).read_text()
        if re.search(r"^namespace BCRF_TARGET", text, re.MULTILINE):
            guard = re.search(r"#ifndef (\w+)\n#define \1\n", text)
            assert guard and guard[1] in forgotten, header
