"""Each C++ header compiles on its own, and instruction sets stay apart."""

import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import bcrf.kernels

FOLDER = Path(bcrf.kernels.__file__).parent
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


def standard_headers(header):
    """Return the headers of the standard library that a header reaches."""
    found, reached, ahead = set(), set(), [FOLDER / header]
    while ahead:
        path = ahead.pop()
        text = path.read_text()
        found.update(re.findall("^#include <(.+)>", text, re.MULTILINE))
        names = re.findall('^#include "(.+)"', text, re.MULTILINE)
        inner = {next(p for p in (path.parent / n, FOLDER / n) if p.exists()) for n in names}
        ahead += inner - reached
        reached |= inner
    return found


INNER = {inner for header in HEADERS for inner in chain(header)[1:]}
TYPICAL = ["cpu/chunks.hh", "cpu/batch.hh"]


@pytest.fixture(scope="module")
def precompile(tmp_path_factory):
    """Return a function that compiles a header once, and returns the options that include it."""
    folder = tmp_path_factory.mktemp("precompiled")

    @cache
    def precompile(name, text):
        (folder / name).write_text(text)
        command = [COMPILER, "-std=c++17", "-w", "-x", "c++-header", folder / name]
        subprocess.run([*command, "-o", folder / f"{name}.gch"], check=True)
        return ["-include", folder / name]

    return precompile


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("header", [header for header in HEADERS if header not in INNER])
def test_a_chain_of_headers_compiles(header, precompile):
    """Each header compiles on its own: the text of the last header of the chain comes first.

    The standard library takes most of the time. What this header reaches of it may come before.
    """
    command = [COMPILER, "-std=c++17", "-fsyntax-only", "-I", FOLDER, "-x", "c++", "-"]
    for typical in TYPICAL:
        names = standard_headers(typical)
        if names <= standard_headers(chain(header)[-1]):
            text = "".join(f"#include <{name}>\n" for name in sorted(names))
            command += precompile(Path(typical).name, text)
            break
    # The second time, the include guard must hide a header.
    text = "".join(f'#include "{name}"\n' for name in [header, *chain(header)])
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_the_program_of_make_foreign_compiles():
    """`make foreign` needs other compilers, so that it runs rarely."""
    program = Path(__file__).parent / "check_vectors.cc"
    folders = ["-I", FOLDER, "-I", FOLDER / "cpu"]
    command = [COMPILER, "-std=c++17", "-fsyntax-only", *folders, program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="there is one instruction set")
@pytest.mark.skipif("BCRF_OBJECTS" not in os.environ, reason="only object files have names")
@pytest.mark.parametrize("name", ["native", "sparse", "encoder"])
def test_only_kernels_of_an_instruction_set_use_it(name):
    """The linker merges functions of the standard library, which must run on any processor."""
    objects = Path(os.environ["BCRF_OBJECTS"], sys.implementation.cache_tag, name).rglob("*.o")
    command = ["objdump", "--disassemble", "--no-show-raw-insn", *objects]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    users = set()
    for function in code.split("\n\n"):
        # All mnemonics of AVX start with v.
        if re.search(r"\tv[a-z]", function):
            users.add(function.partition("\n")[0])
    # The compiler writes the namespace avx2 as 4avx2: disassembling takes longer with plain names.
    assert any("6avx512" in name for name in users)
    assert [name for name in users if "4avx2" not in name and "6avx512" not in name] == []
