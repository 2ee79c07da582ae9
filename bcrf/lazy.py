"""Lazy attributes without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

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

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.compute(instance))
