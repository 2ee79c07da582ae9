"""Lazy attributes without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):
    """Turn a method into an attribute that its first use computes and keeps, without a lock.

    `functools.cached_property` of Python 3.10 and 3.11 holds one lock of all objects while it
    computes: a process forked meanwhile waits forever. Here, two threads may both compute a value,
    and both get the one that was there first.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> T:
        if instance is None:
            return self  # type: ignore[return-value]  # for tools that read classes
        return instance.__dict__.setdefault(self.name, self.compute(instance))
