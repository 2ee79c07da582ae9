"""The types of the compiled modules, which mypy reads, list their functions and parameters."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from bcrf import kernels
from bcrf.kernels import cuda, encoder, native, sparse


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


KERNEL = re.compile(r"_backend\(xp\)\.(\w+)\(xp, (.*?)\)")


@pytest.mark.parametrize("backend", [native, cuda], ids=["native", "cuda"])
def test_a_backend_has_the_kernels_that_are_called(backend):
    """Each has the array module, and then the parameters of the function that calls it."""
    calls = KERNEL.findall(inspect.getsource(kernels))
    assert len(calls) > 10
    for name, passed in calls:
        parameters = passed.split(", ")
        assert list(inspect.signature(getattr(kernels, name)).parameters) == parameters, name
        found = inspect.signature(getattr(backend, name)).parameters
        assert list(found) == ["xp", *parameters], name
