"""The map of the kernels, bcrf/kernels/README.md, and the places of their limits."""

import re
from pathlib import Path

import numpy as np
import pytest
from paths import paths_of

import bcrf.kernels
from bcrf import kernels
from bcrf.kernels import native

FOLDER = Path(bcrf.kernels.__file__).parent
ROOT = FOLDER.parent.parent
README = FOLDER / "README.md"


@pytest.fixture(scope="module")
def text():
    if not README.exists() or not (ROOT / "tests").exists():
        pytest.skip("the README is for readers of the clone, where `make lint` runs this file")
    return README.read_text()


def section(text, title):
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(text):
    """The cells of the first table, without its head."""
    table = re.findall(r"^\|.*\|$", text.partition("\n\n|")[2].partition("\n\n")[0], re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1:]]


def test_the_table_has_each_operation_with_its_paths(text):
    found = rows(section(text, "Operation, path and file"))
    assert tuple(row[0] for row in found) == native.operations()
    for operation, functions, paths, *files in found:
        assert paths.split(", ") == paths_of(operation)
        for name in re.findall("`(.+?)`", functions):
            assert callable(getattr(kernels, name))
        for name in ", ".join(files).split(", "):
            assert (FOLDER / name).exists()
    recursions = {row[3] for row in found}
    classes = {
        name
        for name in recursions
        if re.search(r"template <class L(, class [NR])?> class ", (FOLDER / name).read_text())
    }
    assert len(recursions) == 4 and classes == recursions


def test_the_named_files_exist(text):
    # With a folder. The first column of a table may have code.
    names = re.findall(r"(?<![\w/.])((?:cpu|shared|tests|spacy_bcrf)/[\w/]+\.\w+)", text)
    assert len(names) > 30
    for name in names:
        assert (FOLDER / name).exists() or (ROOT / name).exists(), name
    for name in re.findall(r"`(\w+\.(?:hh|pyx|pxi|py))`", text):
        assert list(FOLDER.rglob(name)), name


def test_a_recipe_names_few_files(text):
    recipe = text.partition("**Add an output**")[2].partition("**Add an inference**")[0]
    assert len(re.findall(r"^\d+\. ", recipe, re.MULTILINE)) <= 8


def test_the_example_of_a_plan(text):
    code, comment = re.search(r"^(kernels\.plan\(.*\))\n((?:# .*\n)+)", text, re.MULTILINE).groups()
    lanes = {"baseline": 4, "avx2": 8, "avx512": 16}[kernels.instruction_set()]
    expected = re.sub(
        r"lanes of (\d+)",
        lambda n: f"lanes of {int(n[1]) * lanes // 16}",
        comment.replace("# ", ""),
    )
    # Plain numbers need more lanes.
    expected = tuple(step for step in eval(expected) if step != "lanes of 2, float64")
    assert eval(code, {"kernels": kernels, "np": np}) == expected


def test_each_header_of_the_folder_is_known(text):
    """The map names each header that holds an algorithm, a layout or a limit."""
    helpers = {"batch", "bregman", "dispatch", "features", "kernels"}
    helpers |= {"shared_code", "table", "target"}
    names = {path.stem for path in (FOLDER / "cpu").glob("*.hh")}
    assert {name for name in names if f"{name}.hh" not in text} <= helpers


LITERAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?e-?\d+f?(?![\w.])")
"""A number in scientific notation: the kernels write limits so."""


def test_numeric_limits_are_in_one_file():
    """simd.hh also has coefficients of exp and log, and interrupt.hh a time."""
    found = {}
    cuda = [path for ending in ("cu", "cuh") for path in FOLDER.glob(f"cuda/*.{ending}")]
    for path in [*FOLDER.glob("cpu/**/*.hh"), *cuda, FOLDER / "shared" / "projection.hh"]:
        code = re.sub(r"//.*", "", path.read_text())
        if path.name not in ("simd.hh", "interrupt.hh") and LITERAL.search(code):
            found[path.name] = LITERAL.findall(code)
    assert not found
    for line in (FOLDER / "cpu" / "simd.hh").read_text().splitlines():
        assert not re.search(" [<>]=? ", line) or not LITERAL.search(line), line


def test_path_thresholds_are_in_one_file():
    """No other header compares the number of tags, or a share of lanes, with a number."""
    threshold = re.compile(r"\b(?:tags_?|share|range)\b(?:\(\))? *[<>]=? *\d+(?:\.\d+)?\b(?! *\*)")
    found = {}
    for path in FOLDER.glob("cpu/*.hh"):
        lines = [line for line in path.read_text().splitlines() if threshold.search(line)]
        if lines and path.name != "plan.hh":
            found[path.name] = lines
    assert not found
