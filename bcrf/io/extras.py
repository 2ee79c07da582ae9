"""Lazy imports of optional dependencies."""

import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import a module. ImportError names the packages of the extra that contains it."""
    try:
        return import_module(module)
    except ImportError as error:
        packages = " ".join(f"'{package}'" for package in find_requirements(extra))
        missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else module
        raise ImportError(
            f"{missing} is not installed; get it with: pip install {packages or module} "
            f"(the extra {extra} of spacy-bcrf)"
        ) from error


def find_requirements(extra: str) -> list[str]:
    """Return the requirements of an extra, such as `torch>=2.0`, by the installed metadata."""
    try:
        found = requires("spacy-bcrf") or []
    except PackageNotFoundError:  # the modules lie on the path without an installation
        found = []
    return [
        requirement.split(";")[0].strip()
        for requirement in found
        if re.search(rf"""extra == ["']{re.escape(extra)}["']""", requirement)
    ]
