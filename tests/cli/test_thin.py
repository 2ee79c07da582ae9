"""A command is the thin face of one public function of its own name."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import spacy_bcrf.cli
from spacy_bcrf.cli import PANELS

FOLDER = Path(spacy_bcrf.cli.__file__).parent
COMMANDS = sorted(name for names in PANELS.values() for name in names)


def imports(path):
    """Yield module and name of each import from the package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, each.name) for each in node.names)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_calls_the_function_of_its_name_and_no_other_command(name):
    found = list(imports(FOLDER / f"{name}_cli.py"))
    (module,) = [module for module, function in found if function == name]
    assert module.startswith("spacy_bcrf.") and module.rpartition(".")[2] == name
    function = getattr(import_module(module), name)
    assert function.__module__ == module and function.__doc__
    assert not any(function.endswith("_cli") for _, function in found)


def test_there_are_26_commands():
    assert len(COMMANDS) == 26 == len([*FOLDER.glob("*_cli.py")])
