"""Threads: bitwise equal results, worker processes, and errors in a thread."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from paths import PATHS, forced, paths_of

from bcrf import kernels
from bcrf.kernels import BregmanOptions, threads

COUNTS = [2, 3, 7]


@pytest.fixture(autouse=True)
def default_afterwards() -> Iterator[None]:
    yield
    kernels.set_threads(None)


def problem(shared=True, tags=17, dtype="float32", n_sequences=200):
    """Several chunks for each kernel, with empty sequences, and scores of a large range."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, n_sequences).astype("int32")
    n = int(lengths.sum())
    unary = rng.normal(size=(n, tags))
    unary[: n // 4] *= 100
    transitions = rng.normal(size=(tags, tags) if shared else (n, tags, tags))
    transitions[rng.random(transitions.shape) < 0.1] = -np.inf
    return unary.astype(dtype), transitions.astype(dtype), lengths


def run_all(unary, transitions, lengths):
    """The results of all kernels for a batch, by name."""
    batch = unary, transitions, lengths
    rng = np.random.default_rng(1)
    n, tags = unary.shape
    edges = "sum" if transitions.ndim == 2 else "each"
    pairs = rng.integers(tags, size=(2, 30)).astype("int32")
    gold = rng.integers(tags, size=n).astype("int32")
    options = BregmanOptions(5, 1.25, None)
    return {
        "sum_product": kernels.sum_product(*batch, edges=edges),
        "value": kernels.sum_product(*batch, marginals=False).value,
        "bregman": kernels.bregman(*batch, options, edges=edges),
        "loss": kernels.fused_loss(*batch, kernels.max_product(*batch)[0]),
        "mean_field": kernels.mean_field(*batch, 3)[:2],
        "mean_field_loss": kernels.mean_field_loss(*batch, gold, 3),
        "max_product": kernels.max_product(*batch),
        "entropy": kernels.entropy(*batch),
        "pair_marginals": kernels.pair_marginals(*batch, *pairs),
        "sample": kernels.sample(*batch, rng.random((2, n))),
        "nbest": kernels.nbest(*batch, 3),
        "beam_search": kernels.beam_search(*batch, 3, 5),
        "dijkstra": kernels.dijkstra(*batch),
    }


def assert_identical(found, expected):
    for name, arrays in expected.items():
        for one, other in zip(found[name], arrays, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("path", PATHS)
def test_the_number_of_threads_changes_no_bit_on_a_path(path):
    batch = problem()
    calls = {
        "sum_product": lambda: kernels.sum_product(*batch, edges="sum"),
        "posterior": lambda: [kernels.entropy(*batch)],
        "bregman": lambda: kernels.bregman(*batch, BregmanOptions(5, 1.25, None), edges="sum"),
        "mean_field": lambda: kernels.mean_field(*batch, 3)[:2],
        "max_product": lambda: kernels.max_product(*batch),
    }
    results = []
    with forced(path):
        for count in 1, *COUNTS:
            kernels.set_threads(count)
            names = [name for name in calls if path in paths_of(name)]
            results.append({name: calls[name]() for name in names})
    for found in results[1:]:
        assert_identical(found, results[0])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_number_of_threads_changes_no_bit(dtype, shared):
    batch = problem(shared=shared, dtype=dtype)
    kernels.set_threads(1)
    expected = run_all(*batch)
    for count in COUNTS:
        kernels.set_threads(count)
        for _ in range(2):
            assert_identical(run_all(*batch), expected)


def test_several_callers_at_once():
    batch = problem()
    kernels.set_threads(1)
    expected = run_all(*batch)
    kernels.set_threads(2)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: run_all(*batch), range(8)):
            assert_identical(found, expected)


def _sums_in_worker(batch, count):
    default = threads.count()
    kernels.set_threads(count)
    return default, kernels.sum_product(*batch, edges="sum")


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_worker_processes_use_one_thread_but_may_use_more(method, monkeypatch):
    monkeypatch.delenv("BCRF_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    batch = problem()
    kernels.set_threads(2)
    expected = kernels.sum_product(*batch, edges="sum")
    with multiprocessing.get_context(method).Pool(1) as pool:
        for count in None, 2:
            # A forked process lacks its parent's threads and must not wait for them.
            result = pool.apply_async(_sums_in_worker, (batch, count))
            default, found = result.get(timeout=60)
            assert default == 1
            assert_identical({"": found}, {"": expected})


@pytest.mark.parametrize("variable", ["BCRF_THREADS", "OMP_NUM_THREADS"])
def test_environment(variable, monkeypatch):
    monkeypatch.delenv("BCRF_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    monkeypatch.setenv(variable, "3")
    kernels.set_threads(None)
    assert threads.count() == 3
    kernels.set_threads(2)
    assert threads.count() == 2
    kernels.set_threads(None)
    monkeypatch.setenv(variable, "many")
    with pytest.raises(ValueError, match=f"{variable}.*from 1 to 2147483647, got 'many'"):
        kernels.max_product(*problem())


def test_default_is_the_cores_of_the_process(monkeypatch):
    monkeypatch.delenv("BCRF_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    kernels.set_threads(None)
    if hasattr(os, "sched_getaffinity"):
        assert threads.count() == len(os.sched_getaffinity(0))
    assert 1 <= threads.count() <= (os.cpu_count() or 1)


def test_wrong_numbers_of_threads():
    with pytest.raises(ValueError, match="from 1 to 2147483647, got 0"):
        kernels.set_threads(0)
    for wrong in 1.5, True, "2":
        with pytest.raises(TypeError, match="threads must be an integer or None, got"):
            kernels.set_threads(wrong)


def test_an_integer_of_numpy_is_a_number_of_threads():
    kernels.set_threads(np.int64(2))
    assert threads.count() == 2


OUT_OF_MEMORY = """
import resource
import numpy as np
from bcrf import kernels

# The kernel copies all per-edge transitions of a sequence, which is more than the limit below.
lengths = np.array([20_000, 20_000], dtype="int32")
unary = np.zeros((40_000, 40), dtype="float32")
transitions = np.zeros((40_000, 40, 40), dtype="float32")
kernels.set_threads(2)
kernels.max_product(unary, transitions, lengths)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, resource.RLIM_INFINITY))
try:
    kernels.sum_product(unary, transitions, lengths)
except MemoryError:
    print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert np.isfinite(kernels.sum_product(unary, transitions, lengths).value).all()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_running_out_of_memory_in_a_thread_is_an_error_in_the_caller():
    run = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "MemoryError\n"


DAEMON = """
import sys, threading, time
import numpy as np
from bcrf import kernels

kernels.set_threads(int(sys.argv[1]))
n, tags = 200_000, 60
batch = np.zeros((n, tags), "f"), np.zeros((tags, tags), "f"), np.array([n], "i")
options = kernels.BregmanOptions(100, 1.25, None)
started = threading.Event()

def work():
    started.set()
    kernels.bregman(*batch, options)

threading.Thread(target=work, daemon=True).start()
started.wait()
# Longer than the time between two looks at the signals.
time.sleep(0.25)
"""


@pytest.mark.parametrize("count", [1, 2])
def test_the_interpreter_exits_during_a_call_of_a_daemon_thread(count):
    run = subprocess.run(
        [sys.executable, "-c", DAEMON, str(count)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
