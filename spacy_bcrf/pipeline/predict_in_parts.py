"""Batches that fail: prediction of their parts."""

from collections.abc import Callable, Sequence
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def predict_in_parts(
    predict: Callable[[Sequence[In]], Sequence[Out]],
    batch: Sequence[In],
    report: Callable[[Exception, int], object] = lambda error, size: None,
) -> list[Out | Exception]:
    """Predict a batch. If that fails, predict its halves, down to the items that fail.

    report: gets the error and the size of halved batches. RETURNS predictions, or exceptions.
    """
    try:
        return list(predict(batch))
    except Exception as error:
        if len(batch) == 1:
            return [error]
        report(error, len(batch))
    half = len(batch) // 2
    parts = batch[:half], batch[half:]
    return [found for part in parts for found in predict_in_parts(predict, part, report)]


def is_out_of_memory(error: Exception) -> bool:
    """Return whether memory is short, on the CPU or a GPU. PyTorch has a RuntimeError for it."""
    return isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
