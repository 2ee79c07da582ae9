"""The packages that benchmarks compare with."""

import ast
import sys
from pathlib import Path

import pytest

from benchmarks.crfsuite_interface import compare

PEERS = {"cupy", "pycrfsuite", "sklearn_crfsuite", "torch", "torch_struct", "torchcrf", "TorchCRF"}
BENCHMARKS = sorted(Path(__file__).parents[2].glob("benchmarks/*.py"))


def test_a_benchmark_without_its_peer_ends_with_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn_crfsuite", None)
    message = r"^sklearn_crfsuite is not installed; .* pip install .*the extra bench of [^\n]*$"
    with pytest.raises(SystemExit, match=message):
        compare("JNLPBA", Path("nowhere"), 1, 1)


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_no_benchmark_imports_a_peer_by_itself(path):
    if path.stem == "gpu":  # looks for CuPy first
        return
    found = ast.walk(ast.parse(path.read_text(encoding="utf8")))
    names = {alias.name for node in found if isinstance(node, ast.Import) for alias in node.names}
    assert not PEERS & names
