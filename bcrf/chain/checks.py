"""Checks of options, which a config may hold as strings."""

from numbers import Real


def check_numbers(**options: object) -> None:
    """Raise ValueError naming the first option that is not a number."""
    for name, value in options.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ValueError(f"{name} must be a number, got {value!r}")
