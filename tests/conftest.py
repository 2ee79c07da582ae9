"""Shared by all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import on_gpu
import pytest
from hypothesis import HealthCheck, settings

# Timing of a single example says nothing on a shared machine.
# The suites that heads, inferences and components inherit run each property for each of them. What
# is filtered out depends on the seed, and says nothing of the code.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.filter_too_much],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora, where there is one."""
    if "BCRF_CORPORA" not in os.environ:
        pytest.skip("BCRF_CORPORA, the folder of real corpora, is not set")
    return Path(os.environ["BCRF_CORPORA"])


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def processor(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the compiled kernels run."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "gpu":
            if reason := on_gpu.why_not():
                pytest.skip(reason)
            on_gpu.put_in_place(patch)
        yield request.param
