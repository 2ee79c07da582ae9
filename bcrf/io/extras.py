"""Lazy imports of optional dependencies."""

import re
from importlib import import_module
from importlib.metadata import metadata, packages_distributions, requires
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import a module. ImportError names the packages of the extra that contains it."""
    try:
        return import_module(module)
    except ImportError as error:
        distribution, requirements = find_extra(extra)
        packages = " ".join(f"'{package}'" for package in requirements)
        missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else module
        raise ImportError(
            f"{missing} is not installed; get it with: pip install {packages or module} "
            f"(the extra {extra} of {distribution})"
        ) from error


def find_extra(extra: str) -> tuple[str, list[str]]:
    """Return the distribution that has an extra, and its requirements, such as `torch>=2.0`.

    Modules on the path without an installation: bcrf, and no requirements.
    """
    installed = packages_distributions()
    for distribution in (*installed.get("bcrf", ()), *installed.get("spacy_bcrf", ())):
        if extra in (metadata(distribution).get_all("Provides-Extra") or ()):
            pattern = rf"""extra == ["']{re.escape(extra)}["']"""
            found = [one for one in requires(distribution) or () if re.search(pattern, one)]
            return distribution, [one.split(";")[0].strip() for one in found]
    return "bcrf", []
