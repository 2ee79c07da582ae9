"""The state of a run on disk: what it annotates, by what, and which shards are finished.

- `manifest.json`: inputs, model and options. It never changes.
- `progress.jsonl`: one line for each finished shard, with its counts and failures. A shard counts
  as finished from this line on. A killed process can leave half a line, which the next one removes.
- `errors.jsonl`: the failures of all finished shards, only if there are any.
- `shards/`: one file for each shard.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from spacy_bcrf.io.atomic import UNFINISHED, replacing
from spacy_bcrf.io.identity import keep_identity

from .shards import Counts, Failure, Finished
from .worker import BulkError

_SAMPLE = 1 << 16


def describe_inputs(files: Sequence[Path]) -> dict[str, list[Any]]:
    """Return size and hash of each file. The hash is of its first and last 64 KiB."""
    return {str(file): _describe_file(file) for file in files}


def _describe_file(path: Path) -> list[Any]:
    try:
        with path.open("rb") as file:
            found = hashlib.sha256(file.read(_SAMPLE))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _SAMPLE))
            found.update(file.read())
    except OSError as error:
        raise BulkError(f"{path}: cannot be read: {error.strerror or error}") from None
    return [size, found.hexdigest()]


class Manifest:
    """The folder of a run, see the module. Use `open_manifest`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.finished: set[int] = set()
        """The numbers of finished shards."""
        self.counts = Counts(0, 0, 0, 0)
        self.is_complete = False
        self._log: IO[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def _read_log(self) -> None:
        """Read finished shards, remove half a line, and write `errors.jsonl` again."""
        path = self.folder / "progress.jsonl"
        end = 0
        with (
            replacing(self.folder / "errors.jsonl") as part,
            part.open("wb") as errors,
            path.open("ab+") as log,
        ):
            log.seek(0)
            for number, line in enumerate(log, start=1):
                if not line.endswith(b"\n"):
                    break
                try:
                    fields = json.loads(line)
                    if "complete" in fields:
                        self.is_complete = True
                    else:
                        failures = [Failure(**one) for one in fields.pop("failures")]
                        self._count(Finished(**fields, failures=failures))
                        errors.writelines(map(_error_line, failures))
                except (ValueError, TypeError, KeyError) as error:
                    raise BulkError(
                        f"{path}:{number}: cannot be read: {error}; start in a new folder"
                    ) from None
                end += len(line)
            log.truncate(end)

    def _count(self, shard: Finished) -> None:
        self.finished.add(shard.number)
        found = (shard.n_read, shard.n_written, len(shard.failures), shard.n_words)
        self.counts = Counts(*(a + b for a, b in zip(self.counts, found, strict=True)))

    def add(self, shard: Finished) -> None:
        """Record a finished shard, whose file exists. BulkError if the disk is full."""
        failures = [failure._asdict() for failure in shard.failures]
        self._append({**shard._asdict(), "failures": failures})
        self._count(shard)
        assert self._errors is not None
        self._errors.writelines(map(_error_line, shard.failures))
        self._errors.flush()

    def remove_unfinished(self) -> None:
        """Remove the temporary files of killed processes."""
        for folder in (self.folder, self.folder / "shards"):
            for path in filter(_is_unfinished, [*folder.iterdir()]):
                path.unlink(missing_ok=True)

    def complete(self) -> None:
        """Record that no shard is left."""
        self.remove_unfinished()
        self._append({"complete": True})
        self.is_complete = True

    def _append(self, fields: Mapping[str, Any]) -> None:
        assert self._log is not None
        try:
            self._log.write(json.dumps(fields).encode() + b"\n")
            self._log.flush()
            os.fsync(self._log.fileno())
        except OSError as error:
            raise BulkError(
                f"{self.folder / 'progress.jsonl'}: cannot be written: {error.strerror}"
            ) from None


@contextmanager
def open_manifest(folder: Path, identity: Mapping[str, Any], suffix: str) -> Iterator[Manifest]:
    """Start a run in a new or empty folder, or go on with the run of the same identity.

    identity: JSON values of what decides the output: inputs, model, options. suffix: the extension
    of the shards. ValueError for another identity, with the differences. BulkError if another
    process writes to the folder, if the folder has other files, or if the file of a finished shard
    is missing.
    """
    path = folder / "manifest.json"
    try:
        if folder.exists() and not path.exists():
            others = [file for file in folder.iterdir() if file.name not in (".lock", "shards")]
            others += [file for file in (folder / "shards").glob("*") if not _is_unfinished(file)]
            if others := [file for file in others if not _is_unfinished(file)]:
                raise BulkError(
                    f"{folder}: has {others[0].name}, but no manifest.json of an earlier run; "
                    "expected a new or empty folder"
                )
        (folder / "shards").mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            keep_identity(path, identity)
            manifest = Manifest(folder)
            manifest.remove_unfinished()
            manifest._read_log()
            for number in sorted(manifest.finished):
                shard = folder / "shards" / f"{number:06d}.{suffix}"
                if not shard.exists():
                    raise BulkError(
                        f"{shard}: is missing, but progress.jsonl lists it as finished; restore "
                        "it, or start in a new folder"
                    )
            errors = folder / "errors.jsonl"
            try:
                with (
                    (folder / "progress.jsonl").open("ab") as manifest._log,
                    errors.open("ab") as manifest._errors,
                ):
                    yield manifest
            finally:
                if errors.exists() and not errors.stat().st_size:
                    errors.unlink()
    except OSError as error:
        raise BulkError(f"{error.filename or folder}: {error.strerror or error}") from None


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(UNFINISHED)


def _error_line(failure: Failure) -> bytes:
    return json.dumps(failure._asdict()).encode() + b"\n"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, where the system can. A kill frees the lock."""
    with (folder / ".lock").open("w") as file:
        with suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BulkError(f"{folder}: another process is writing to this folder") from None
        yield
