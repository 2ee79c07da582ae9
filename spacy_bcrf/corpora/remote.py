"""Files of object stores, such as `s3://bucket/folder`, as paths of cloudpathlib.

They have the interface of `pathlib`, so other modules annotate them as `Path`.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bcrf.io.extras import require

_ERRORS = {
    "cloudpathlib.exceptions": ("CloudPathException",),
    "boto3.exceptions": ("Boto3Error",),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "google.api_core.exceptions": ("GoogleAPIError",),
    "azure.core.exceptions": ("AzureError",),
}
"""Base classes of the errors of cloudpathlib and of the clients of stores, by module."""

N_REQUESTS = 16
"""Requests at the same time: a store takes milliseconds for each."""


def make_path(name: str) -> Path:
    """Return the path of a file or folder, remote for a URL. ValueError for an unknown store."""
    if "://" not in name:
        return Path(name)
    cloudpathlib = require("cloudpathlib", "remote")
    try:
        path: Any = cloudpathlib.CloudPath(name.rstrip("/"))
        # Opening a file downloads it. The copy goes when the file is closed.
        path.client.file_cache_mode = cloudpathlib.enums.FileCacheMode.close_file
    except path_errors() as error:
        raise ValueError(f"{name}: {describe_error(error)}") from None
    return path


def is_remote(path: Path) -> bool:
    return not isinstance(path, Path)


def glob_files(pattern: Path) -> list[Path]:
    """Return the files that match a remote pattern, sorted."""
    parts = pattern.parts
    n = next((i for i, part in enumerate(parts) if re.search(r"[*?[]", part)), None)
    if n is None:
        return []
    found = pattern.parents[len(parts) - n - 1].glob("/".join(parts[n:]))
    return sorted(path for path in found if path.is_file())


def find_below(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted. A remote folder takes one request a 1,000 files."""
    if not is_remote(folder):
        return sorted(path for path in folder.rglob("*") if path.is_file())
    remote: Any = folder
    return sorted(root / name for root, _, names in remote.walk() for name in names)


def find_sizes(folder: Path) -> dict[Path, int]:
    files = find_below(folder)
    with ThreadPoolExecutor(N_REQUESTS) as pool:
        sizes = list(pool.map(lambda file: file.stat().st_size, files))
    return dict(zip(files, sizes, strict=True))


def path_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of reading and writing: OSError, and exceptions of stores' clients."""
    found: list[type[Exception]] = [OSError]
    for module, names in _ERRORS.items():
        if module in sys.modules:
            found += (getattr(sys.modules[module], name) for name in names)
    return tuple(found)


def describe_error(error: Exception) -> str:
    """Return the message of one of `path_errors`, without the number of an OSError."""
    return str(getattr(error, "strerror", None) or error)
