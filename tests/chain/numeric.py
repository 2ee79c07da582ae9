"""Numeric gradients of objectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bcrf.chain import Potentials


def assert_gradient(
    loss: Callable, batch: Potentials, data: Any, step: float = 1e-5, tolerance: float = 1e-4
) -> None:
    """Compare the gradient of `loss` with central differences.

    loss: Potentials -> (losses, gradient). Hypothesis' `data` draws a few finite scores of each
    array. The gradient of a forbidden score must be zero.
    """
    _, gradient = loss(batch)
    for name in ("unary", "transitions"):
        values = getattr(batch, name)
        finite = np.argwhere(values > -np.inf)
        for _ in range(3 if len(finite) else 0):
            at = tuple(finite[data.draw(st.integers(0, len(finite) - 1))])
            totals = []
            for sign in (1, -1):
                arrays = {key: getattr(batch, key) for key in ("unary", "transitions", "lengths")}
                arrays[name] = values.copy()
                arrays[name][at] += sign * step
                totals.append(loss(Potentials(**arrays))[0].sum())
            numeric = (totals[0] - totals[1]) / (2 * step)
            found = getattr(gradient, name)[at]
            assert found == pytest.approx(numeric, abs=tolerance, rel=tolerance)
        assert not getattr(gradient, name)[values == -np.inf].any()
