"""Shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Timing of a single example says nothing on a shared machine.
# The suites that heads, inferences and components inherit run each property for each of them.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.differing_executors],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora, where there is one."""
    if "BCRF_CORPORA" not in os.environ:
        pytest.skip("BCRF_CORPORA, the folder of real corpora, is not set")
    return Path(os.environ["BCRF_CORPORA"])
