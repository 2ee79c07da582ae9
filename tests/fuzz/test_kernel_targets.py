"""Each fuzz target of kernels and model files survives mutations of its seeds."""

import random

import numpy as np
import pytest

from tests.fuzz.mutations import mutate
from tests.fuzz.targets_kernels import SEEDS, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_seeds(name):
    rng = random.Random(name)
    with np.errstate(all="ignore"):
        for seed in SEEDS[name]:
            TARGETS[name](seed)
        for _ in range(100):
            data = mutate(rng, SEEDS[name])
            try:
                TARGETS[name](data)
            except Exception as error:
                error.add_note(f"input: {data!r}")
                raise
