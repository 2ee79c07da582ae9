"""L-BFGS and, with an L1 regularizer, OWL-QN: minima of functions of weights."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from math import isfinite
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from bcrf.chain.potentials import check_least, check_numbers

from .learner import DivergedError

Weights = NDArray[np.float32]
_SUFFICIENT = 1e-4  # share of the decrease by the slope that a step must reach (Armijo)


@dataclass(frozen=True)
class LBFGSSettings:
    """Settings of `minimize`, with the names and defaults of CRFsuite.

    c1, c2: coefficients of the regularizers c1 |w|_1 and c2 |w|^2.
    max_iterations: largest number of iterations. num_memories: number of steps that approximate the
        second derivatives. max_linesearch: largest number of evaluations in an iteration.
    epsilon: stop where the norm of the gradient is at most epsilon max(1, |w|).
    period, delta: stop if `period` iterations decrease the objective by a share of at most `delta`.

    Raises ValueError naming the setting that is out of range.
    """

    c1: float = 0.0
    c2: float = 1.0
    max_iterations: int = 2**31 - 1
    num_memories: int = 6
    epsilon: float = 1e-5
    period: int = 10
    delta: float = 1e-5
    max_linesearch: int = 20

    def __post_init__(self) -> None:
        check_numbers(**vars(self))
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, int):
                if not isinstance(value, Integral) or value < 1:
                    raise ValueError(f"{field.name} must be an int of at least 1, got {value}")
            else:
                check_least(0, **{field.name: value})


def minimize(
    evaluate: Callable[[Weights], tuple[float, Weights]],
    weights: Weights,
    settings: LBFGSSettings,
    report: Callable[[int, float, Weights], None],
) -> Weights:
    """Return the weights (rows, columns) that minimize evaluate(w) + c1 |w|_1 + c2 |w|^2.

    evaluate: returns the value of a function and its gradient (rows, columns). weights: the start.
    report: called after each iteration with its number, the objective and the weights.

    Source: Nocedal and Wright 2006, algorithm 7.4; with c1, Andrew and Gao 2007 (OWL-QN), where a
    step ends at the border of its orthant, so that weights become exactly 0. Steps halve until they
    decrease the objective enough.

    Raises DivergedError if the gradient is not finite.
    """
    c1, c2 = settings.c1, settings.c2

    def regularize(weights: Weights) -> tuple[float, Weights]:
        value, gradient = evaluate(weights)
        value += c1 * float(np.abs(weights).sum(dtype="float64")) + c2 * _dot(weights, weights)
        return value, gradient + 2 * c2 * weights

    memory: deque[tuple[Weights, Weights, float]] = deque(maxlen=settings.num_memories)
    value, gradient = regularize(weights)
    values = [value]
    while len(values) <= settings.max_iterations:
        slope = _add_l1(weights, gradient, c1)
        norm = _dot(slope, slope) ** 0.5
        if not isfinite(norm):
            raise DivergedError("the gradient is not finite: scale the values of features")
        if norm <= settings.epsilon * max(1.0, _dot(weights, weights) ** 0.5):
            break
        direction = _multiply_inverse(memory, -slope)
        if c1:
            direction[direction * slope >= 0] = 0
        orthant = np.sign(np.where(weights, weights, -slope))
        size = 1.0 if memory else 1 / norm
        for _ in range(settings.max_linesearch):
            new = weights + np.float32(size) * direction
            if c1:
                new[new * orthant < 0] = 0
            step = new - weights
            new_value, new_gradient = regularize(new)
            if new_value <= value + _SUFFICIENT * _dot(slope, step):
                break
            size /= 2
        else:
            if not memory:
                break
            memory.clear()  # and search along the slope
            continue
        change = new_gradient - gradient
        curvature = _dot(step, change)
        if curvature > 0:
            memory.append((step, change, curvature))
        weights, gradient, value = new, new_gradient, new_value
        values.append(value)
        report(len(values) - 1, value, weights)
        before = values[-1 - settings.period :][0]
        if len(values) > settings.period and before - value <= settings.delta * value:
            break
    return weights


def _dot(a: Weights, b: Weights) -> float:
    """Return the inner product, a sum in float64: that of millions of float32 loses digits."""
    return float(np.einsum("ij,ij->i", a, b).sum(dtype="float64"))


def _add_l1(weights: Weights, gradient: Weights, c1: float) -> Weights:
    """Return the derivative with c1 |w|_1 in the direction of descent, 0 if there is none."""
    if not c1:
        return gradient
    shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - np.float32(c1), 0)
    return np.where(weights, gradient + np.float32(c1) * np.sign(weights), shrunk)


def _multiply_inverse(memory: deque[tuple[Weights, Weights, float]], direction: Weights) -> Weights:
    """Multiply, in place, by the inverse of the approximate second derivatives."""
    shares = []
    for step, change, curvature in reversed(memory):
        shares.append(_dot(step, direction) / curvature)
        direction -= np.float32(shares[-1]) * change
    if memory:
        _, change, curvature = memory[-1]
        direction *= np.float32(curvature / _dot(change, change))
    for (step, change, curvature), share in zip(memory, reversed(shares), strict=True):
        direction += np.float32(share - _dot(change, direction) / curvature) * step
    return direction
