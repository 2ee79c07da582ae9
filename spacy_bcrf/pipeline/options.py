"""Dataclasses as nested options of a config, which has lists and no tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, TypeVar

Self = TypeVar("Self", bound="ConfigOption")


class ConfigOption:
    """Base of a dataclass that is an option of a component.

    option: name of the option.
    """

    option: ClassVar[str]

    @classmethod
    def from_options(cls: type[Self], options: Mapping[str, Any]) -> Self:
        """Read the option of a config. ValueError for other names or values."""
        try:
            values = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in options.items()
            }
            return cls(**values)
        except (TypeError, AttributeError):
            *names, last = (field.name for field in fields(cls))  # type: ignore[arg-type]
            shown = dict(options) if isinstance(options, Mapping) else options
            raise ValueError(
                f"{cls.option} must have {', '.join(names)} and {last}, got {shown!r}"
            ) from None

    @property
    def options(self) -> dict[str, Any]:
        """The value of the option in a config."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
        }
