"""The backends under test."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_host
import numpy as np
import pytest
from paths import PATHS, Forced

from bcrf.kernels import cuda, native
from bcrf.kernels.cuda import device


def _not_a_number(shape: Any, dtype: Any) -> Any:
    return np.full(shape, np.nan, dtype)


NUMPY = SimpleNamespace(**{**vars(np), "empty": _not_a_number})


@pytest.fixture(autouse=True)
def no_empty_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill empty arrays with NaN, so that a token shows to which a kernel writes no marginals."""
    monkeypatch.setattr(native, "numpy", NUMPY)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the CUDA kernels that are built for the host. All workers share it."""
    base = tmp_path_factory.getbasetemp()
    found = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cuda"
    found.mkdir(exist_ok=True)
    return found


@pytest.fixture
def host(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> cuda_host.HostDevice:
    """The device that runs the CUDA kernels on the host."""
    if reason := cuda_host.why_not():
        pytest.skip(reason)
    if "gpu" in getattr(request.node, "callspec", SimpleNamespace(params={})).params.values():
        pytest.skip("the GPU runs these kernels itself")
    found = cuda_host.HostDevice(folder)
    monkeypatch.setattr(device, "find", lambda *arrays: found)
    return found


@pytest.fixture(params=["compiled", "cuda"])
def backend(request: pytest.FixtureRequest) -> Any:
    """The compiled kernels, and the CUDA kernels on the host."""
    if request.param == "cuda":
        request.getfixturevalue("host")
    return {"compiled": native, "cuda": cuda}[request.param]


@pytest.fixture(params=["cuda", *PATHS])
def path_backend(request: pytest.FixtureRequest) -> Any:
    """The compiled kernels on each path, and the CUDA kernels on the host."""
    if request.param != "cuda":
        return Forced(request.param)
    request.getfixturevalue("host")
    return cuda
