"""Files of object stores, such as `s3://bucket/folder`, as paths.

The paths are of `universal_pathlib`, which has the interface of `pathlib` for the file systems of
fsspec. Other modules annotate them as `Path`.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .extras import require

IN_MEMORY = "memory://"
"""Start of the URLs of files that exist in one process only."""


BUFFER = 1 << 20


def make_path(name: str) -> Path:
    """Return the path of a file or folder. A URL such as `s3://bucket/folder` is remote.

    ImportError names the extra that remote paths need.
    """
    return require("upath", "remote").UPath(name) if "://" in name else Path(name)


def is_remote(path: Path) -> bool:
    """Return whether a path is in an object store."""
    return not isinstance(path, Path)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file to read its bytes."""
    raw: Any = path.open("rb")
    # The files of fsspec have no `readline` with a limit.
    return io.BufferedReader(raw, BUFFER) if is_remote(path) else raw


def glob_files(pattern: Path) -> list[Path]:
    """Return the files that match a remote pattern."""
    remote: Any = pattern
    return _restore(remote, sorted(remote.fs.glob(remote.path)), is_file=remote.fs.isfile)


def find_below(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted. A remote folder takes one request a 1,000 files."""
    if not is_remote(folder):
        return sorted(path for path in folder.rglob("*") if path.is_file())
    remote: Any = folder
    # Another process may have written since the last request.
    remote.fs.invalidate_cache()
    return _restore(remote, sorted(remote.fs.find(remote.path)))


def _restore(remote: Any, found: list[str], is_file: Any = lambda path: True) -> list[Path]:
    return [make_path(remote.fs.unstrip_protocol(path)) for path in found if is_file(path)]


@contextmanager
def uploading(path: Path) -> Iterator[Path]:
    """Yield a temporary path on this machine, and upload the file to `path` at the end.

    Stores replace an object at once. So readers see the old file or the new one.
    """
    remote: Any = path
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / path.name
        yield part
        remote.fs.put_file(str(part), remote.path)


def path_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of reading and writing: OSError, and the S3 client's own."""
    botocore = sys.modules.get("botocore.exceptions")
    return (OSError,) if botocore is None else (OSError, botocore.BotoCoreError)


def describe(error: Exception) -> str:
    """Return the message of one of `path_errors`, without the number of an OSError."""
    return str(getattr(error, "strerror", None) or error)
