"""The state of a run on disk: what it annotates, by what, and which shards are finished.

- `manifest.json`: inputs, model and options. It never changes.
- `progress.jsonl`: one line for each finished shard, with its counts and failures. A shard counts
  as finished from this line on. In an object store, the lines are in several objects in `progress`.
- `errors.jsonl`: the failures of all finished shards, only if there are any. In an object store it
  appears at the end of a run.
- `shards/`: one file for each shard.

A folder on this machine has a lock. Object stores have none. Two runs there do the same work: they
write the same shards, whose content depends only on the identity, and both sets of lines count.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spacy_bcrf.io.atomic import UNFINISHED, replacing
from spacy_bcrf.io.identity import keep_identity
from spacy_bcrf.io.remote import describe, find_below, is_remote, path_errors

from .progress_log import LocalLog, ProgressLog, RemoteLog
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
    except path_errors() as error:
        raise BulkError(f"{path}: cannot be read: {describe(error)}") from None
    return [size, found.hexdigest()]


class Manifest:
    """The folder of a run, see the module. Use `open_manifest`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.finished: set[int] = set()
        """The numbers of finished shards."""
        self.counts = Counts(0, 0, 0, 0)
        self.is_complete = False
        self._log: ProgressLog = RemoteLog(folder) if is_remote(folder) else LocalLog(folder)

    def read_log(self) -> Iterator[Finished]:
        """Yield finished shards, each once, and count them."""
        self.finished, self.counts = set(), Counts(0, 0, 0, 0)
        for place, line in self._log.read():
            try:
                fields = json.loads(line)
                if "complete" in fields:
                    self.is_complete = True
                    continue
                failures = [Failure(**one) for one in fields.pop("failures")]
                shard = Finished(**fields, failures=failures)
            except (ValueError, TypeError, KeyError) as error:
                raise BulkError(
                    f"{place}: cannot be read: {error}; start in a new folder"
                ) from None
            if shard.number not in self.finished:
                self._count(shard)
                yield shard

    def write_errors(self) -> None:
        """Write `errors.jsonl` with the failures of all finished shards, if there are any."""
        with replacing(self.folder / "errors.jsonl") as part, part.open("wb") as errors:
            for shard in self.read_log():
                errors.writelines(map(_error_line, shard.failures))
        if not self.counts.failed:
            (self.folder / "errors.jsonl").unlink()

    def _count(self, shard: Finished) -> None:
        self.finished.add(shard.number)
        found = (shard.n_read, shard.n_written, len(shard.failures), shard.n_words)
        self.counts = Counts(*(a + b for a, b in zip(self.counts, found, strict=True)))

    def add(self, shard: Finished) -> None:
        """Record a finished shard, whose file exists. BulkError if the disk is full."""
        failures = [failure._asdict() for failure in shard.failures]
        self._append({**shard._asdict(), "failures": failures})
        self._count(shard)
        if failures and not is_remote(self.folder):
            with (self.folder / "errors.jsonl").open("ab") as errors:
                errors.writelines(map(_error_line, shard.failures))

    def remove_unfinished(self) -> None:
        """Remove the temporary files of killed processes."""
        if not is_remote(self.folder):
            for folder in (self.folder, self.folder / "shards"):
                for path in filter(_is_unfinished, [*folder.iterdir()]):
                    path.unlink(missing_ok=True)

    def complete(self) -> None:
        """Record that no shard is left."""
        self.remove_unfinished()
        self._append({"complete": True})
        self.is_complete = True

    def _append(self, fields: Mapping[str, Any]) -> None:
        try:
            self._log.append(json.dumps(fields))
        except path_errors() as error:
            raise BulkError(
                f"{self.folder}: the finished shard cannot be recorded: {describe(error)}"
            ) from None


@contextmanager
def open_manifest(folder: Path, identity: Mapping[str, Any], suffix: str) -> Iterator[Manifest]:
    """Start a run in a new or empty folder, or go on with the run of the same identity.

    identity: JSON values of what decides the output: inputs, model, options. suffix: the extension
    of the shards. ValueError for another identity, with the differences. BulkError if another
    process writes to the folder on this machine, if the folder has other files, or if the file of a
    finished shard is missing.
    """
    path = folder / "manifest.json"
    try:
        if not path.exists() and (others := _other_files(folder)):
            raise BulkError(
                f"{folder}: has {others[0].name}, but no manifest.json of an earlier run; "
                "expected a new or empty folder"
            )
        with _lock(folder):
            keep_identity(path, identity)
            manifest = Manifest(folder)
            manifest.remove_unfinished()
            manifest.write_errors()
            there = {file.name for file in find_below(folder / "shards")}
            for number in sorted(manifest.finished):
                if (name := f"{number:06d}.{suffix}") not in there:
                    raise BulkError(
                        f"{folder / 'shards' / name}: is missing, but the log of progress lists it "
                        "as finished; restore it, or start in a new folder"
                    )
            try:
                yield manifest
            finally:
                if is_remote(folder) and manifest.counts.failed:
                    manifest.write_errors()
    except path_errors() as error:
        place = getattr(error, "filename", None) or folder
        raise BulkError(f"{place}: {describe(error)}") from None


def _other_files(folder: Path) -> list[Path]:
    if is_remote(folder):
        return find_below(folder)
    if not folder.exists():
        return []
    others = [file for file in folder.iterdir() if file.name not in (".lock", "shards")]
    others += (folder / "shards").glob("*")
    return [file for file in others if not _is_unfinished(file)]


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(UNFINISHED)


def _error_line(failure: Failure) -> bytes:
    return json.dumps(failure._asdict()).encode() + b"\n"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, where the system can. A kill frees the lock."""
    if is_remote(folder):
        yield
        return
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        with suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BulkError(f"{folder}: another process is writing to this folder") from None
        yield
