"""Batches that do not fit into the GPU's memory."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np

from bcrf.kernels.backend import Result

from . import device

TOKEN_ARGUMENTS = ("unary", "transitions", "gold", "tags")
"""Names of arguments with a row for each token. Shared transitions have none."""

Kernel = TypeVar("Kernel", bound=Callable)


def within_memory(kernel: Kernel) -> Kernel:
    """Decorate a kernel to run on the device of its arrays, and as two batches if these do not fit.

    The kernel's arguments are the array module, `unary`, `transitions`, `lengths` and more, by
    these names. The decorated kernel raises MemoryError if one of these does not fit either.
    """

    @wraps(kernel)
    def run(xp: Any, *args: Any) -> Any:
        arrays = [arg for arg in args if hasattr(arg, "dtype")]
        found = device.find(*arrays)
        with found.current():
            try:
                return kernel(xp, *args)
            except MemoryError:
                found.free()
            named = signature(kernel).bind(xp, *args).arguments
            try:
                first, second = (kernel(**smaller) for smaller in _divide(named))
                return _join(xp, first, second)
            except MemoryError as error:
                n, tags = named["unary"].shape
                raise MemoryError(
                    f"the GPU has too little memory for {kernel.__name__} of {n} tokens in "
                    f"{len(named['lengths'])} sequences with {tags} tags, and for each half of the "
                    "batch: use smaller batches, or the CPU"
                ) from error

    return run  # type: ignore[return-value]


def _divide(named: dict[str, Any]) -> list[dict[str, Any]]:
    """Divide the batch between two sequences, near the middle of the tokens."""
    stops = to_host(named["lengths"]).cumsum()
    at = int(np.searchsorted(stops, stops[-1] / 2)) + 1 if len(stops) else 0
    if at >= len(stops):
        at = len(stops) - 1
    if at < 1:
        raise MemoryError("a single sequence cannot be divided")
    token = int(stops[at - 1])
    cuts = dict.fromkeys(TOKEN_ARGUMENTS, token) | {"lengths": at}
    if named["transitions"].ndim == 2:
        del cuts["transitions"]
    batches: list[dict[str, Any]] = [{}, {}]
    for name, arg in named.items():
        if name in cuts:
            batches[0][name], batches[1][name] = arg[: cuts[name]], arg[cuts[name] :]
        else:
            batches[0][name] = batches[1][name] = arg
    return batches


def _join(xp: Any, first: Any, second: Any) -> Any:
    """Join the results of two batches."""
    if isinstance(first, Result):
        value, unary = (_join(xp, first[i], second[i]) for i in (0, 1))
        if first.edges is not None and first.edges.ndim == 2:
            return Result(value, unary, first.edges + second.edges)
        return Result(value, unary, _join(xp, first.edges, second.edges))
    if isinstance(first, tuple):
        return tuple(_join(xp, x, y) for x, y in zip(first, second, strict=True))
    if first is None:
        return None
    # Lists of labelings are int (n, N). In other results, sequences or tokens are the first axis.
    return xp.concatenate([first, second], axis=int(first.ndim == 2 and first.dtype.kind == "i"))


def to_host(array: Any) -> np.ndarray:
    """Copy a CuPy array to the host. Return a NumPy array unchanged."""
    return array if isinstance(array, np.ndarray) else array.get()
