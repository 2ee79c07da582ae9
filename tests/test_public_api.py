"""Names that users import: each has an example, and the package imports them at first use."""

import doctest
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from examples import check_example

import bcrf
import spacy_bcrf


@pytest.mark.parametrize("name", [n for n in spacy_bcrf.__all__ if n != "__version__"])
def test_help_has_an_example_that_runs(name):
    check_example(getattr(spacy_bcrf, name), name)


def test_the_package_has_an_example():
    found = doctest.testmod(spacy_bcrf)
    assert found.attempted and not found.failed


@pytest.mark.parametrize("package", [bcrf, spacy_bcrf], ids=["bcrf", "spacy_bcrf"])
def test_no_two_modules_have_one_name(package):
    names = Counter(path.stem for path in Path(package.__file__).parent.rglob("*.py"))
    assert {name for name, n in names.items() if n > 1} == {"__init__"}


def test_names_are_listed_and_imported_at_first_use():
    assert set(dir(spacy_bcrf)) >= {"accelerate", "displacy", "to_frame"}
    with pytest.raises(AttributeError, match="no attribute 'Chunkr'"):
        _ = spacy_bcrf.Chunkr
    code = (
        "import spacy_bcrf, sys; print(sum(name.split('.')[0] == 'spacy' for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "0\n"
