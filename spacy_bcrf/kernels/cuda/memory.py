"""What to do where a batch does not fit the GPU's memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np

from spacy_bcrf.kernels import Result

from . import device

OF_TOKENS = ("unary", "transitions", "gold", "tags")
"""Arguments that hold something for each token, transitions unless they are shared."""

Kernel = TypeVar("Kernel", bound=Callable)


def within_memory(kernel: Kernel) -> Kernel:
    """The kernel on the device of its arrays, in two halves if there is too little memory for all.

    kernel: takes the array module, `unary`, `transitions`, `lengths` and more, by these names.
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
                first, second = (kernel(**half) for half in _halves(named))
                return _join(xp, first, second)
            except MemoryError as error:
                n, tags = named["unary"].shape
                raise MemoryError(
                    f"the GPU has too little memory for {kernel.__name__} of {n} tokens in "
                    f"{len(named['lengths'])} sequences with {tags} tags, and for the halves of "
                    "that: use smaller batches, or the CPU (--gpu-id -1)"
                ) from error

    return run  # type: ignore[return-value]


def _halves(named: dict[str, Any]) -> list[dict[str, Any]]:
    """Arguments of the sequences up to half of the tokens, and of the others."""
    stops = to_host(named["lengths"]).cumsum()
    at = int(np.searchsorted(stops, stops[-1] / 2)) + 1 if len(stops) else 0
    if at >= len(stops):
        at = len(stops) - 1
    if at < 1:
        raise MemoryError("a single sequence cannot be divided")
    token = int(stops[at - 1])
    cuts = dict.fromkeys(OF_TOKENS, token) | {"lengths": at}
    if named["transitions"].ndim == 2:
        del cuts["transitions"]
    halves: list[dict[str, Any]] = [{}, {}]
    for name, arg in named.items():
        if name in cuts:
            halves[0][name], halves[1][name] = arg[: cuts[name]], arg[cuts[name] :]
        else:
            halves[0][name] = halves[1][name] = arg
    return halves


def _join(xp: Any, first: Any, second: Any) -> Any:
    if isinstance(first, Result):
        value, node = (_join(xp, first[i], second[i]) for i in (0, 1))
        if first.edges is not None and first.edges.ndim == 2:
            return Result(value, node, first.edges + second.edges)
        return Result(value, node, _join(xp, first.edges, second.edges))
    if isinstance(first, tuple):
        return tuple(_join(xp, x, y) for x, y in zip(first, second, strict=True))
    if first is None:
        return None
    # Several labelings are (n, N), all else has its sequences or tokens first.
    return xp.concatenate([first, second], axis=int(first.ndim == 2 and first.dtype.kind == "i"))


def to_host(array: Any) -> np.ndarray:
    """A copy, of a CuPy array."""
    return array if isinstance(array, np.ndarray) else array.get()
