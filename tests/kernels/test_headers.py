"""Each C++ header compiles on its own."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import spacy_bcrf.kernels

FOLDER = Path(spacy_bcrf.kernels.__file__).parent
HEADERS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.hh"))
FIRST_INCLUDE = re.compile(r'\A(?:\s*//.*\n|#(?:ifndef|define|pragma).*\n|\s)*#include "(.+)"')
COMPILER = shutil.which("g++") or shutil.which("clang++")


def chain(header):
    """Return a header, the header that it includes ahead of all code, and so on."""
    found = FIRST_INCLUDE.match((FOLDER / header).read_text())
    if not found:
        return [header]
    path = (FOLDER / header).parent / found[1]
    return [header, *chain(path.resolve().relative_to(FOLDER).as_posix())]


INNER = {inner for header in HEADERS for inner in chain(header)[1:]}


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("header", [header for header in HEADERS if header not in INNER])
def test_a_chain_of_headers_compiles(header):
    """Each header compiles on its own: the text of the last header of the chain comes first."""
    # The second time, the include guard must hide a header.
    command = [COMPILER, "-std=c++17", "-fsyntax-only", "-I", FOLDER, "-x", "c++", "-"]
    text = "".join(f'#include "{name}"\n' for name in [header, *chain(header)])
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
