"""Fixtures of the tests of layers."""

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """A random generator with a fixed seed."""
    return np.random.default_rng(0)
