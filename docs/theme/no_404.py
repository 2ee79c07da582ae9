"""MkDocs hook: no 404.html. Its links are right only where a server has the site at its root."""

from typing import Any


def on_config(config: Any, **_: Any) -> None:
    """Take the page out of what the theme writes besides the pages."""
    config.theme.static_templates.discard("404.html")
