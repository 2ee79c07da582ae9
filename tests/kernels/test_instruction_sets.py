"""The kernels of each instruction set that this machine has."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_threads import problem, run_all

from bcrf import kernels

FOLDER = Path(__file__).parent
OTHERS = [name for name in kernels.instruction_sets() if name != kernels.instruction_set()]

# Without the tests of the reference kernels, which no instruction set changes.
KERNEL_TESTS = """
import sys
import numpy as np
import pytest
from bcrf import kernels
from test_instruction_sets import results
assert kernels.instruction_set() == sys.argv[1]
np.savez(sys.argv[2], **results())
options = ["-x", "-m", "not gpu", "-p", "no:cacheprovider", "--hypothesis-profile", "few"]
reference = "reference_is_enumeration or (algorithm_1 and kernels_of0)"
sys.exit(pytest.main([*options, "-k", f"not ({reference})", sys.argv[3]]))
"""


def run(isa, code, *arguments):
    path = os.pathsep.join([str(FOLDER), str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"BCRF_ISA": isa, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def results():
    """The arrays that the kernels return for two batches, and the weights of a sparse learner."""
    found = {}
    for shared in True, False:
        batch = problem(shared=shared, dtype="float64", n_sequences=40)
        for name, arrays in run_all(*batch).items():
            arrays = [arrays] if isinstance(arrays, np.ndarray) else arrays
            found |= {f"{name} {shared} {i}": array for i, array in enumerate(arrays)}
    return found | {f"{name} learner": array for name, array in learn().items()}


def learn():
    """The weights and scores of a sparse learner with each objective."""
    from bcrf.kernels.sparse import Learner, score

    rng = np.random.default_rng(0)
    n_tags, n_features, lengths = 5, 20, np.array([9, 1, 0, 14], "int32")
    starts = np.arange(0, 3 * lengths.sum() + 1, 3, dtype="int64")
    rows = rng.integers(n_features, size=starts[-1]).astype("int32")
    gold = rng.integers(n_tags, size=lengths.sum()).astype("int32")
    offsets = np.concatenate([[0], lengths.cumsum()]).astype("int64")
    order = np.array([3, 0, 1, 2, 0], "int32")
    pairs = np.arange(n_features, n_features + 6 * 5, dtype="int32").reshape(6, 5)
    found = {}
    for objective in "crf", "bcrf", "mean_field", "sapo", "perceptron", "mira":
        options = {"n": 3, "n_iter": 4, "beam": 0, "averaged": True, "rate": 0.1, "decay": 0.1}
        options |= {"l2": 0.1, "l1": 0.1, "adagrad": objective == "crf", "relaxation": 1.25}
        learner = Learner(objective, n_tags, **options, n_sequences=4)
        learner.resize(n_features + pairs.size)
        if objective == "crf":
            learner.set_pairs(pairs, 0.01)
        learner.learn(rows, starts, gold, None, None, offsets, order)
        found[objective] = learner.read()
        found[f"{objective} scores"] = score(found[objective], n_tags, rows, starts, lengths)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("isa", OTHERS)
def test_kernel_tests_pass_and_all_kernels_agree(isa, tmp_path):
    done = run(isa, KERNEL_TESTS, isa, tmp_path / "found.npz", FOLDER / "test_kernels.py")
    assert done.returncode == 0, done.stdout + done.stderr
    expected = results()
    with np.load(tmp_path / "found.npz") as found:
        assert set(found) == set(expected)
        for name, array in expected.items():
            tolerance = 1e-5 if array.dtype == "float32" else 1e-9
            np.testing.assert_allclose(
                found[name], array, rtol=tolerance, atol=tolerance, err_msg=name
            )


def test_the_default_is_the_last_instruction_set():
    code = "from bcrf import kernels; print(kernels.instruction_set())"
    assert run("", code).stdout == f"{kernels.instruction_sets()[-1]}\n"


UNKNOWN = """
import numpy as np
from bcrf import kernels
from bcrf.kernels import sparse
print(*kernels.instruction_sets())
lengths = np.ones(1, "i")
for call in (
    lambda: kernels.instruction_set(),
    lambda: kernels.max_product(np.zeros((1, 2)), np.zeros((2, 2)), lengths),
    lambda: sparse.score(np.ones((5, 8), "f"), 2, lengths[:0], np.zeros(2, "q"), lengths),
):
    try:
        call()
    except ValueError as error:
        print(error)
"""


def test_an_unknown_instruction_set_is_an_error():
    names = kernels.instruction_sets()
    message = (
        f"the environment variable BCRF_ISA must be one of {', '.join(map(repr, names))}, "
        "the instruction sets of this machine, got 'nonsense'"
    )
    assert run("nonsense", UNKNOWN).stdout.splitlines() == [" ".join(names), *[message] * 3]
