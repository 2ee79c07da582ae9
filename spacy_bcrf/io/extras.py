"""Lazy imports of optional dependencies."""

from importlib import import_module
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import a module. ImportError names the extra of spacy-bcrf that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is not installed; get it with: pip install 'spacy-bcrf[{extra}]'"
        ) from error
