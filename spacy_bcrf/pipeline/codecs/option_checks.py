"""Checks of the options of codecs."""


def check_group_name(option: str, key: object) -> None:
    """Raise ValueError unless the value of an option is a name that configs can keep."""
    if not isinstance(key, str):
        raise ValueError(f"{option} must be the name of a span group, got {key!r}")
    check_dollars(option, key)


def check_dollars(option: str, value: str) -> None:
    """Raise ValueError for a "$", which spaCy doubles in a config at every save."""
    if "$" in value:
        raise ValueError(
            f"{option} cannot have a $, because spaCy's configs double it at every save: {value!r}"
        )
