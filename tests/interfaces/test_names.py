"""Names of the engine that users import: each has an example. `import bcrf` is light."""

import doctest
import subprocess
import sys

import pytest
from examples import check_example

import bcrf
from bcrf import linear

NAMES = [(p, name) for p in (bcrf, linear) for name in p.__all__ if name != "__version__"]


@pytest.mark.parametrize("module, name", NAMES, ids=lambda value: getattr(value, "__name__", value))
def test_help_has_an_example_that_runs(module, name):
    check_example(getattr(module, name), name)


@pytest.mark.parametrize("module", [bcrf, linear], ids=lambda module: module.__name__)
def test_a_package_has_an_example(module):
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


def test_an_import_loads_numpy_and_the_standard_library_alone():
    code = (
        "import sys, numpy; before = set(sys.modules)\n"
        "import bcrf, bcrf.linear, bcrf.schemes\n"
        "found = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(found - sys.stdlib_module_names - {'bcrf', 'numpy'}))\n"
        "print([name for name in sys.modules if name in ('bcrf.kernels.native', 'bcrf.torch')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "[]"]
