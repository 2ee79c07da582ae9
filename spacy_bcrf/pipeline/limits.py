"""Limits of time and memory for documents that nobody has seen before."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from spacy.language import Language

In = TypeVar("In")
Out = TypeVar("Out")

_SEARCHES = ("prefix_search", "suffix_search", "infix_finditer", "token_match", "url_match")


class TookTooLongError(Exception):
    """A document took longer than its time limit."""


class _Deadline(threading.local):
    """The end of the time limit of this thread."""

    time = float("inf")
    seconds = 0.0

    def check(self, *_: object) -> None:
        """Raise TookTooLongError after the end. Also a signal handler."""
        if time.monotonic() >= self.time:
            self.time = float("inf")
            raise TookTooLongError(f"took longer than {self.seconds:g} s")


_deadline = _Deadline()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLongError if the code within takes longer. 0 for no limit.

    In the main thread, all code that runs Python or checks for signals can be ended, as our kernels
    can. In other threads and on Windows, only the tokenizers of `watch_tokenizer`.
    """
    by_signal = (
        seconds > 0
        and hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
    )
    _deadline.time, _deadline.seconds = time.monotonic() + (seconds or float("inf")), seconds
    old = signal.signal(signal.SIGALRM, _deadline.check) if by_signal else None
    try:
        if by_signal:
            signal.setitimer(signal.ITIMER_REAL, seconds, 1)
        yield
    finally:
        _deadline.time = float("inf")
        if by_signal:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)


class _Search:
    """A search of a tokenizer that checks the time. The tokenizer can still be saved."""

    def __init__(self, search: Any) -> None:
        self.search, self.__self__ = search, search.__self__

    def __call__(self, *arguments: Any) -> Any:
        _deadline.check()
        return self.search(*arguments)


def watch_tokenizer(nlp: Language) -> None:
    """Let `time_limit` end the tokenizer of a pipeline.

    The time of spaCy's tokenizer is quadratic in the prefixes and suffixes of a word: 16,000 open
    brackets take 20 s. It calls regular expressions, but no Python code, and so hears no signal.
    """
    for name in _SEARCHES:
        search = getattr(nlp.tokenizer, name, None)
        if hasattr(search, "__self__") and not isinstance(search, _Search):
            setattr(nlp.tokenizer, name, _Search(search))


def predict_in_parts(
    predict: Callable[[Sequence[In]], Sequence[Out]],
    batch: Sequence[In],
    report: Callable[[Exception, int], object] = lambda error, size: None,
) -> list[Out | Exception]:
    """Predict a batch. If that fails, predict its halves, down to the items that fail.

    report: receives the error of each batch that is halved, and its size. RETURNS for each item its
    prediction, or the exception of an item that fails alone.
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
