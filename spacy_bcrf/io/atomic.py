"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place at the end. If that is not reached,
    what was there stays. The folder is made where it is missing. ValueError for a folder's path."""
    if not path.name or path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, this is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield part
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A text file in UTF-8."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf8")
