"""What a saved component must have in common with its config."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def record_changes(configured: dict[str, Any], current: dict[str, Any]) -> str:
    """Return the settings that code has changed as JSON text: name -> (configured, current)."""
    changed = {
        name: (configured[name], value)
        for name, value in current.items()
        if value != configured[name]
    }
    # spaCy's own JSON reader changes the last digit of some numbers.
    return json.dumps(changed)


def apply_changes(
    name: str, changes: str, configured: dict[str, Any], change: Callable[[str, Any], None]
) -> None:
    """Change saved settings again, unless the config sets another value than it did when saved.

    name: of the component. ValueError for an unknown setting.
    """
    for setting, (was_configured, value) in json.loads(changes).items():
        if setting not in configured:
            raise ValueError(
                f"[{name}] the saved component has the unknown setting {setting!r}; expected one "
                f"of {', '.join(configured)}"
            )
        if configured[setting] == was_configured:
            change(setting, value)


def check_loaded(
    name: str,
    loaded: dict[str, Any],
    configured: dict[str, str],
    trained_on: list[str] | None,
    tags: list[str],
) -> None:
    """Raise ValueError if a saved component does not fit its config.

    loaded, configured: the options that define the tags, saved and in the config. trained_on: the
    tags of the weights, None without weights. tags: of the component.
    """
    for key, value in configured.items():
        if loaded[key] != value:
            raise ValueError(
                f"[{name}] the config sets {key} = {value!r}, but the saved component has "
                f"{key} = {loaded[key]!r}"
            )
    if trained_on is not None and trained_on != tags:
        raise ValueError(
            f"[{name}] the model was trained on the tags {trained_on}, but the component's, from "
            f"{loaded}, are {tags}"
        )
