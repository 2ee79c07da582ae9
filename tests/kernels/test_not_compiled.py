"""A source folder without a build: one line says what to do."""

import pytest
from bare_sources import copy_sources, run


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return copy_sources(tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize("module", ["native", "sparse", "encoder"])
def test_the_kernels_say_what_to_do(bare, module):
    done = run(bare, "-c", f"from bcrf.kernels import {module}")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"{bare} has bcrf without compiled kernels. Run `pip install .` in it" in last
