"""Attributes without locks: a fork beside a thread that computes one does not wait for it."""

import ast
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bcrf.lazy import lazy

ROOT = Path(__file__).resolve().parents[1]
FORKS = 60

CODE = """
import os, sys, threading, warnings
import numpy as np
from bcrf.chain import Potentials
from bcrf.chain.gold import GoldLattice

warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads

def compute():
    w = Potentials(np.zeros((4000, 2)), np.zeros((2, 2)), np.full(2000, 2, "int32"))
    gold = GoldLattice(w, np.full(4000, -1, "int32"))
    return [len(x) for x in (w.inner_edges, w.segment_ids, w.starts, gold.allowed, gold.unknown)]

def repeat():
    while not ended.is_set():
        compute()

expected, ended = compute(), threading.Event()
threads = [threading.Thread(target=repeat, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for i in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os._exit(compute() != expected)
    assert os.waitpid(child, 0)[1] == 0
ended.set()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_forks_beside_threads_end():
    subprocess.run([sys.executable, "-c", CODE, str(FORKS)], check=True, timeout=2 * FORKS)


def test_a_value_is_computed_while_another_object_computes_its_own():
    started, go = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, wait):
            self.wait = wait

        @lazy
        def value(self):
            if self.wait:
                started.set()
                assert go.wait(10)
            return [self.wait]

    slow, found = Slow(True), []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert started.wait(10)
    assert Slow(False).value == [False]
    go.set()
    for thread in threads:
        thread.join()
    # Whoever computes last gets the first value.
    assert found[0] is found[1] is slow.value


def test_no_attribute_of_the_packages_has_a_lock():
    for package in ("bcrf", "spacy_bcrf"):
        for path in (ROOT / package).rglob("*.py"):
            names = {
                alias.name
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom) and node.module == "functools"
                for alias in node.names
            }
            assert "cached_property" not in names, path
