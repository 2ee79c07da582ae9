"""Atomic file writes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move it to `path` at the end.

    After an exception the old file stays and the temporary one is removed. Missing parent folders
    are created. ValueError if `path` is a folder.
    """
    if not path.name or path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, this is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _temporary_path(path)
    try:
        yield part
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, and move it to `path` at the end.

    After an exception the temporary folder is removed. ValueError if `path` is neither new nor
    an empty folder.
    """
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise ValueError(f"{path}: expected a new or empty folder")
    part = _temporary_path(path)
    part.mkdir(parents=True)
    try:
        yield part
        if path.is_dir():
            path.rmdir()
        part.replace(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf8")


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{os.getpid()}.{path.name}")
