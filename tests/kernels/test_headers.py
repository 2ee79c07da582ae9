"""Each C++ header compiles on its own, and instruction sets stay apart."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import spacy_bcrf.kernels
from spacy_bcrf.kernels import native, sparse

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


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="there is one instruction set")
@pytest.mark.parametrize("module", [native, sparse], ids=["native", "sparse"])
def test_only_kernels_of_an_instruction_set_use_it(module):
    """The linker merges functions of the standard library, which must run on any processor."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", "--demangle", module.__file__]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    users = set()
    for function in code.split("\n\n"):
        # All mnemonics of AVX start with v.
        if re.search(r"\tv[a-z]", function):
            users.add(function.partition("\n")[0])
    assert any("avx512::" in name for name in users)
    assert [name for name in users if "avx2::" not in name and "avx512::" not in name] == []
