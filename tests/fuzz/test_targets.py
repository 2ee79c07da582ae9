"""Each fuzz target survives mutations of its seeds."""

import random

import numpy as np
import pytest

from tests.fuzz.__main__ import find_targets
from tests.fuzz.mutations import mutate

TARGETS = find_targets()
N_INPUTS = {"settings": 30, "convert": 10}
"""Fewer inputs for the slow targets."""


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_seeds(name):
    target, seeds = TARGETS[name]
    rng = random.Random(name)
    with np.errstate(all="ignore"):
        for seed in seeds:
            target(seed)
        for _ in range(N_INPUTS.get(name.partition(":")[2], 100)):
            data = mutate(rng, seeds)
            try:
                target(data)
            except Exception as error:
                error.add_note(f"input: {data!r}")
                raise
