"""The types of the compiled modules, which mypy reads, list their functions and parameters."""

import ast
import inspect
from pathlib import Path

import pytest

from spacy_bcrf.kernels import encoder, native, sparse
from spacy_bcrf.kernels.backend import Backend


def functions(nodes, owner):
    """The functions of a stub and the compiled ones, methods included."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, getattr(owner, node.name))
        # Compiled classes have __cinit__, not __init__, and properties have no signature.
        elif not (getattr(node, "decorator_list", True) or node.name.startswith("__")):
            yield node, getattr(owner, node.name)


def is_public(name, value):
    return callable(value) and not isinstance(value, type) and not name.startswith("_")


@pytest.mark.parametrize("module", [sparse, encoder], ids=["sparse", "encoder"])
def test_the_stub_lists_the_functions_of_its_module(module):
    stub = Path(module.__file__).parent / f"{module.__name__.rpartition('.')[2]}.pyi"
    found = list(functions(ast.parse(stub.read_text()).body, module))
    for node, compiled in found:
        names = [arg.arg for arg in node.args.args]
        assert names == list(inspect.signature(compiled).parameters), node.name
    stubbed = {node.name for node, _ in found if hasattr(module, node.name)}
    assert stubbed == {name for name, value in vars(module).items() if is_public(name, value)}


def test_the_compiled_kernels_have_the_signatures_of_the_protocol():
    methods = {name: value for name, value in vars(Backend).items() if is_public(name, value)}
    assert methods
    for name, method in methods.items():
        expected = list(inspect.signature(method).parameters)[1:]
        assert list(inspect.signature(getattr(native, name)).parameters) == expected, name
