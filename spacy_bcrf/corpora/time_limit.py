"""A time limit for each document, which interrupts the tokenizer too."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spacy.language import Language

from spacy_bcrf.annotation.tokenizers import SplitTokenizer

SECONDS = 60.0
"""The longest time of a command's tokenizer for a text."""

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
def time_limit(seconds: float, by_signal: bool = True) -> Iterator[None]:
    """Raise TookTooLongError if the code within takes longer. 0 for no limit.

    In the main thread, all code that runs Python or checks for signals can be ended. In others,
    on Windows, and without `by_signal`, only the tokenizers of `watch_tokenizer`.
    """
    is_main = threading.current_thread() is threading.main_thread()
    by_signal = by_signal and seconds > 0 and is_main and hasattr(signal, "setitimer")
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
    tokenizer: Any = nlp.tokenizer
    while isinstance(tokenizer, SplitTokenizer):
        tokenizer = tokenizer.tokenizer
    for name in _SEARCHES:
        search = getattr(tokenizer, name, None)
        if hasattr(search, "__self__") and not isinstance(search, _Search):
            setattr(tokenizer, name, _Search(search))
