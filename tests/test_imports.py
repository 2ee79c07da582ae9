"""The files of both packages import one another in one direction; bcrf has no name twice."""

import ast
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bcrf

ROOT = Path(bcrf.__file__).parents[1]


def modules():
    """The name and the path of each Python file, such as "bcrf.kernels.cuda.gpu_batch"."""
    for package in ("bcrf", "spacy_bcrf"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), path


def imported(name, path):
    """What a file imports anywhere, in functions and for type checks too."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # A name of a package is one of its files, or stands in its __init__.py.
                folder = ROOT / source.replace(".", "/")
                is_file = (folder / alias.name).is_dir() or any(folder.glob(f"{alias.name}.*"))
                yield f"{source}.{alias.name}" if is_file else source


def test_no_circle_of_imports():
    graph = {name: {*imported(name, path)} - {name} for name, path in modules()}
    assert graph["spacy_bcrf.sparse.model"] >= {"spacy_bcrf.sparse.two_pass", "bcrf.linear.learner"}
    assert graph["bcrf.kernels.cuda.labelings"] >= {"bcrf.kernels.native"}
    assert "bcrf.kernels.cuda" in graph["bcrf.kernels"]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"the files import one another in a circle: {' -> '.join(error.args[1])}")


def of_others(name):
    """The packages of others that a module of bcrf may import. All else is lazy, by `require`."""
    yield "numpy"
    owners = {"bcrf.torch": "torch", "bcrf.sklearn": "sklearn", "bcrf.kernels": "cupy"}
    for module, package in owners.items():
        if f"{name}.".startswith(f"{module}."):
            yield package


def test_the_engine_imports_numpy_and_the_standard_library():
    for name, path in modules():
        if name.split(".")[0] == "bcrf":
            found = {module.split(".")[0] for module in imported(name, path)}
            allowed = {"bcrf", *of_others(name), *sys.stdlib_module_names}
            assert found <= allowed, f"{path} imports {sorted(found - allowed)}"


def test_no_file_of_bcrf_has_the_name_of_another():
    names = [path.name for path in (ROOT / "bcrf").rglob("*.py") if path.name != "__init__.py"]
    assert [name for name, count in Counter(names).items() if count > 1] == []
