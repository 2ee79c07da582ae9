"""Atomic file writes."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# Readers of corpora, such as spaCy's, skip names that start with a dot. So no corpus includes the
# temporary file of a killed process.
UNFINISHED = ".unfinished-"
"""Start of the names of temporary files."""


LOOP = "is a link that leads to itself; expected a file or a folder"


def resolve(path: Path) -> Path:
    """Follow all links of a path, also of cloudpathlib. ValueError for a link to itself."""
    try:
        found = path.resolve()
    except RuntimeError:  # of Python before 3.13
        raise ValueError(f"{path}: {LOOP}") from None
    if isinstance(found, Path) and found.is_symlink():
        raise ValueError(f"{path}: {LOOP}")
    return found


def is_stream(path: Path) -> bool:
    """Return whether `path` is a device or a pipe, whose place no file must take."""
    target = _resolve(path)
    is_regular = target.is_file() and not _is_open_file(target)
    return target.exists() and not is_regular and not target.is_dir()


@contextmanager
def replacing(path: Path, follow: bool = True, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move it to `path` at the end.

    After an exception the old file stays and the temporary one is removed. The new file keeps the
    mode of the old one, but not its owner. mode: where there is none, less the umask. A link stays,
    and its target is replaced; without `follow`, the file takes the place of a link or a device,
    which nobody chose. Missing parent folders are created. The path of a device or a pipe is
    yielded itself. A path of cloudpathlib is written on this machine and then uploaded: stores
    replace an object at once. ValueError if `path` is a folder. An OSError that names no file, as
    for a full disk, gets `path` as its file.
    """
    if hasattr(path, "upload_from"):
        with tempfile.TemporaryDirectory() as folder:
            yield (part := Path(folder) / path.name)
            path.upload_from(part, force_overwrite_to_cloud=True)
        return
    if not path.name or path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, this is a folder")
    if follow and is_stream(path):
        yield path
        return
    target = _resolve(path) if follow else path.absolute()
    with _naming(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The suffix stays, because Matplotlib chooses the format by it.
        descriptor, name = tempfile.mkstemp(target.suffix, UNFINISHED, target.parent)
        os.close(descriptor)
        part = Path(name)
        try:
            yield part
            _sync(part)
            part.chmod(_mode(target, mode))
            part.replace(target)
            _sync_names(target.parent)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def open_own(path: Path, mode: str) -> IO[bytes]:
    """Open a file of a folder that others may write to. OSError if it is a link."""
    flags = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
    return open(path, mode, opener=lambda name, more: os.open(name, more | flags, 0o666))


def check_replaced(path: Path, *inputs: Path) -> None:
    """Raise ValueError for a file to write that is a folder, an input, or in an input folder."""
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, this is a folder")
    target = resolve(path)
    for given in inputs:
        source = resolve(given)
        if target == source or (source.is_dir() and source in target.parents):
            raise ValueError(f"{path}: would replace the input {given}; expected another file")


def check_new_folder(path: Path) -> None:
    """Raise ValueError if `path` is neither new nor an empty folder."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ValueError(f"{path}: expected a new or empty folder; nothing in it is replaced")


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, and move it to `path` at the end.

    After an exception the temporary folder is removed. A link to an empty folder stays. ValueError
    if `path` is neither new nor an empty folder.
    """
    check_new_folder(path)
    target = _resolve(path)
    with _naming(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp("", UNFINISHED, target.parent))
        try:
            yield part
            for file in (*part.rglob("*"), part):
                _sync(file)
            part.chmod(_mode(target, 0o777))
            if target.is_dir():
                target.rmdir()
            part.replace(target)
            _sync_names(target.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf8")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the path in an error that names an unfinished file, or none: a full disk has no name."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and UNFINISHED in str(error.filename or UNFINISHED):
            error.filename = str(path)
        raise


def _resolve(path: Path) -> Path:
    """Follow links to their target, but not the links to open files."""
    path = path.absolute()
    for _ in range(40):  # Linux follows as many links
        path = resolve(path.parent) / path.name
        if _is_open_file(path) or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise ValueError(f"{path}: {LOOP}")


def _is_open_file(path: Path) -> bool:
    """Return whether `path` names a file that a process writes on to, as /dev/stdout on Linux."""
    return path.is_relative_to("/proc") or path.is_relative_to("/dev/fd")


def _mode(path: Path, default: int) -> int:
    """Return the mode of a file or folder, by default the one that the umask allows."""
    if path.exists() and not path.is_symlink():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0o077)  # the only way to read it is to set it
    os.umask(mask)
    return default & ~mask


def _sync_names(folder: Path) -> None:
    """Write the names in a folder to the disk, where the system can."""
    # The new file is already in place, and an exception would mean that the old one stays.
    with suppress(OSError):
        _sync(folder)


def _sync(path: Path) -> None:
    """Write the buffers of a file to the disk, or the names in a folder."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
