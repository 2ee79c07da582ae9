"""A source folder without a build: one line says what to do, and spaCy's commands work."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spacy_bcrf

COMMANDS = {
    "spacy_commands": ["-m", "spacy", "info"],
    "blank": ["-c", "import spacy; spacy.blank('en').add_pipe('bcrf_ner')"],
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder with the sources of the package, which come before the installed one."""
    folder = tmp_path_factory.mktemp("bare")
    source = Path(spacy_bcrf.__file__).parent
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "*.cpp", "__pycache__")
    shutil.copytree(source, folder / "spacy_bcrf", ignore=ignored)
    return folder


def run(folder, *arguments):
    command = [sys.executable, *arguments]
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_spacy_works_in_a_bare_clone(bare, arguments):
    done = run(bare, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["native", "sparse", "encoder"])
def test_the_kernels_say_what_to_do(bare, module):
    done = run(bare, "-c", f"from bcrf.kernels import {module}")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"{bare} has spacy-bcrf without compiled kernels. Run `pip install .` in it" in last


def test_a_command_ends_with_one_line(bare):
    text = Path(bare / "texts.txt")
    text.write_text("Ann saw Rome\n")
    code = (
        "import spacy; nlp = spacy.blank('en'); nlp.add_pipe('bcrf_ner').add_label('PER'); "
        "nlp.initialize()"
    )
    done = run(bare, "-c", code)
    assert "Run `pip install .` in it" in done.stderr.splitlines()[-1]
