"""Names that users import: each has an example, and the package imports them at first use."""

import doctest
import importlib
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from inspect import isfunction
from pathlib import Path

import pytest
from examples import check_example

import bcrf
import spacy_bcrf
from spacy_bcrf import analysis, renamed

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", [n for n in spacy_bcrf.__all__ if n != "__version__"])
def test_help_has_an_example_that_runs(name):
    check_example(getattr(spacy_bcrf, name), name)


def test_analysis_names_its_functions():
    functions = {name for name, value in vars(analysis).items() if isfunction(value)}
    assert functions >= {"audit", "calibrate", "control", "monitor", "rank", "report", "tune"}
    with pytest.raises(AttributeError, match="no attribute 'calibrat'"):
        _ = analysis.calibrat


@pytest.mark.parametrize("name", ["evidence", "monitor", "risk", "thresholds"])
def test_the_function_control_does_not_hide_the_modules_of_its_folder(name):
    module = importlib.import_module(f"spacy_bcrf.analysis.control.{name}")
    found: dict = {}
    exec(f"import spacy_bcrf.analysis.control.{name} as module", found)
    exec(f"from spacy_bcrf.analysis.control import {name}", found)
    assert found["module"] is found[name] is module
    assert analysis.control is analysis.control.thresholds.control


def test_the_package_has_an_example():
    found = doctest.testmod(spacy_bcrf)
    assert found.attempted and not found.failed


def test_old_names_of_modules_say_the_new_one():
    for old, new in renamed.MODULES.items():
        with pytest.raises(ModuleNotFoundError, match=f"^{old} is now {new}$"):
            importlib.import_module(old)
        # Found, not imported: bcrf.torch needs an extra.
        assert all(find_spec(name) for name in new.split(" and "))


def test_the_changelog_says_what_the_import_of_an_old_module_says():
    section = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("### ")[2]
    assert section.startswith("Renamed")
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    n_modules = 0
    for before, now in rows:
        old, new = (re.findall(r"`((?:spacy_)?bcrf\b[\w.]*)`", cell) for cell in (before, now))
        said = [name for module in old for name in renamed.MODULES[module].split(" and ")]
        assert not old or list(dict.fromkeys(said)) == new
        n_modules += len(old)
    assert n_modules > 10


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


def test_old_modules_of_the_package_say_the_new_one_in_from_imports():
    with pytest.raises(ModuleNotFoundError, match=r"^spacy_bcrf\.chain is now bcrf\.chain$"):
        from spacy_bcrf import chain  # noqa: F401
