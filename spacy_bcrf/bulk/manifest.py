"""The state of a run on disk: what it annotates, by what, and which shards are finished.

- `manifest.json`: inputs, model and options. It never changes.
- `progress.jsonl`: one line for each finished shard, with its counts and failures, the size and the
  hash of its file, and a checksum of the line. A shard counts as finished from this line on. In an
  object store, the lines are in several objects in `progress`.
- `errors.jsonl`: the failures of all finished shards, only if there are any. In an object store it
  appears at the end of a run.
- `shards/`: one file for each shard.

A folder on this machine has a lock. Object stores have none. Two runs there do the same work: they
write the same shards, whose content depends only on the identity, and both sets of lines count.
"""

import hashlib
import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bcrf.io.atomic import UNFINISHED, open_own, replacing, write_text
from bcrf.io.hashes import hash_files
from spacy_bcrf.corpora.identity import keep_identity
from spacy_bcrf.corpora.remote import describe_error, find_below, find_sizes, is_remote, path_errors
from spacy_bcrf.corpora.texts import Rejected

from .shards import Finished, RunCounts
from .worker import BulkError

_SAMPLE = 1 << 16
_N_SAMPLES = 16


def describe_inputs(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Return size, last change and hash of each file: of 16 blocks, or the etag. BulkError."""
    return {str(file): _describe_file(file) for file in files}


def _describe_file(path: Path) -> dict[str, Any]:
    try:
        if is_remote(path):
            remote: Any = path
            stat = remote.stat()
            return {"size": stat.st_size, "modified": stat.st_mtime, "etag": remote.etag}
        if not path.is_file():
            raise BulkError(f"{path}: expected a regular file")
        modified = path.stat().st_mtime
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            found = hashlib.sha256()
            for i in range(_N_SAMPLES):
                file.seek(max(0, size - _SAMPLE) * i // (_N_SAMPLES - 1))
                found.update(file.read(_SAMPLE))
    except path_errors() as error:
        raise BulkError(f"{path}: cannot be read: {describe_error(error)}") from None
    return {"size": size, "modified": modified, "sha256 of samples": found.hexdigest()}


MAX_SEGMENT = 1 << 18
"""An object of a remote log ends after this number of bytes."""


class ProgressLog:
    """Lines of `progress.jsonl`, or of objects in `progress/`, because stores cannot append.

    A run replaces its last object until MAX_SEGMENT bytes, by unique names, so none is lost.
    """

    def __init__(self, folder: Path) -> None:
        self._is_remote = is_remote(folder)
        self.path = folder / ("progress" if self._is_remote else "progress.jsonl")
        self._text = ""  # of the last object

    def _files(self) -> list[Path]:
        if self._is_remote:
            return find_below(self.path)
        return [self.path] if self.path.exists() else []

    def read(self) -> Iterator[tuple[str, str]]:
        for path in self._files():
            for number, line in enumerate(self._lines(path), start=1):
                yield f"{path}:{number}", line

    def _lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a file. A killed process can leave half a line, which goes."""
        with path.open("rb") as log:
            for line in log:
                if not (line.endswith(b"\n") or self._is_remote):
                    os.truncate(path, log.tell() - len(line))
                    return
                yield line.decode(errors="replace").removesuffix("\n")

    def append(self, line: str) -> None:
        """Add a line. OSError or an error of the store if that fails."""
        if not self._is_remote:
            with open_own(self.path, "ab") as log:
                log.write(f"{line}\n".encode())
                log.flush()
                os.fsync(log.fileno())
            return
        if not self._text:
            self._object = self.path / f"{uuid.uuid4().hex}.jsonl"
        self._text += f"{line}\n"
        write_text(self._object, self._text)
        if len(self._text) > MAX_SEGMENT:
            self._text = ""

    def keep(self, is_kept: Callable[[str], bool]) -> None:
        for path in self._files():
            write_text(path, "".join(f"{line}\n" for line in self._lines(path) if is_kept(line)))


class Manifest:
    """The folder of a run: numbers of finished shards, messages about damaged ones, counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.finished: set[int] = set()
        self.counts = RunCounts(0, 0, 0, 0)
        self.is_complete = False
        self.damaged: list[str] = []
        self._log = ProgressLog(folder)

    def read_log(self) -> Iterator[Finished]:
        """Yield finished shards, each once, and count them."""
        self.finished, self.counts, self.is_complete = set(), RunCounts(0, 0, 0, 0), False
        n_shards: int | None = None
        for place, line in self._log.read():
            shard = _parse_line(line)
            if shard is None:
                self.damaged.append(f"{place}: damaged")
            elif isinstance(shard, int):
                n_shards = shard
            elif shard.number not in self.finished:
                self._count(shard)
                yield shard
        # A line that somebody removed leaves a shard to do.
        self.is_complete = n_shards is not None and self.finished == set(range(n_shards))

    def check_shards(self, suffix: str) -> None:
        """Find missing and damaged shards, in an object store by their size. suffix: of shards."""
        folder = self.folder / "shards"
        sizes = find_sizes(folder)
        for shard in self.read_log():
            file = folder / f"{shard.number:06d}.{suffix}"
            if file not in sizes:
                self.damaged.append(f"{file}: is missing")
            elif sizes[file] != shard.size or not (
                is_remote(file) or hash_files(file) == shard.hash
            ):
                self.damaged.append(f"{file}: is damaged")
            else:
                continue
            self.finished.discard(shard.number)

    def drop_damaged(self) -> None:
        kept = self.finished.copy()
        self._log.keep(
            lambda line: isinstance(s := _parse_line(line), Finished) and s.number in kept
        )

    def write_errors(self) -> None:
        """Write `errors.jsonl` with the failures of all finished shards, if there are any."""
        path = self.folder / "errors.jsonl"
        with replacing(path, follow=False) as part, part.open("wb") as errors:
            for shard in self.read_log():
                errors.writelines(map(_error_line, shard.failures))
        if not self.counts.failed:
            path.unlink()

    def _count(self, shard: Finished) -> None:
        self.finished.add(shard.number)
        unread = sum(failure.unread for failure in shard.failures)
        found = (shard.n_read, shard.n_written, len(shard.failures), shard.n_words, unread)
        self.counts = RunCounts(*(a + b for a, b in zip(self.counts, found, strict=True)))

    def add(self, shard: Finished) -> None:
        """Record a finished shard, whose file exists. BulkError if the disk is full."""
        failures = [*map(_describe_failure, shard.failures)]
        self._append({**shard._asdict(), "failures": failures})
        self._count(shard)
        if failures and not is_remote(self.folder):
            with open_own(self.folder / "errors.jsonl", "ab") as errors:
                errors.writelines(map(_error_line, shard.failures))

    def remove_unfinished(self) -> None:
        if not is_remote(self.folder):
            for folder in (self.folder, self.folder / "shards"):
                for path in filter(_is_unfinished, [*folder.iterdir()]):
                    path.unlink(missing_ok=True)

    def complete(self) -> None:
        self.remove_unfinished()
        self._append({"complete": len(self.finished)})
        self.is_complete = True

    def _append(self, fields: Mapping[str, Any]) -> None:
        try:
            self._log.append(_add_checksum(json.dumps(fields)))
        except path_errors() as error:
            raise BulkError(
                f"{self.folder}: the finished shard cannot be recorded: {describe_error(error)}"
            ) from None


@contextmanager
def open_manifest(
    folder: Path, identity: Mapping[str, Any], suffix: str, redo: bool = False
) -> Iterator[Manifest]:
    """Start a run in a new or empty folder, or go on with the run of the same identity.

    identity: JSON values of what decides the output. suffix: of the shards. redo: shards with
    damaged or missing files or lines count as unfinished; else they are a BulkError, as are another
    process in the folder, other files and links. ValueError lists differences of the identity.
    """
    path = folder / "manifest.json"
    try:
        if folder.is_file():
            raise BulkError(f"{folder}: is a file; expected a new or empty folder")
        if not path.exists() and (others := _other_files(folder)):
            raise BulkError(
                f"{folder}: has {others[0].name}, but no manifest.json of an earlier run; "
                "expected a new or empty folder"
            )
        with _lock(folder):
            keep_identity(path, identity)
            manifest = Manifest(folder)
            manifest.remove_unfinished()
            manifest.check_shards(suffix)
            if manifest.damaged and not redo:
                n_more = len(manifest.damaged) - 1
                raise BulkError(
                    f"{manifest.damaged[0]}{f', and {n_more:,} more' if n_more else ''}; "
                    "redo annotates these shards again, and no others"
                )
            if manifest.damaged:
                manifest.drop_damaged()
            manifest.write_errors()
            try:
                yield manifest
            finally:
                if is_remote(folder) and manifest.counts.failed:
                    manifest.write_errors()
    except path_errors() as error:
        place = getattr(error, "filename", None) or folder
        raise BulkError(f"{place}: {describe_error(error)}") from None


def _other_files(folder: Path) -> list[Path]:
    if is_remote(folder):
        return find_below(folder)
    others = [*folder.glob("*"), *(folder / "shards").glob("*")]
    return [x for x in others if not (x.name in (".lock", "shards") or _is_unfinished(x))]


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(UNFINISHED)


def _describe_failure(failure: Rejected) -> dict[str, Any]:
    """Return the fields, without fields of other readers of texts."""
    found = failure._asdict()
    del found["empty"]
    return {name: value for name, value in found.items() if value is not False}


def _error_line(failure: Rejected) -> bytes:
    return json.dumps(_describe_failure(failure)).encode() + b"\n"


def _add_checksum(line: str) -> str:
    return f'{line[:-1]}, "crc": {zlib.crc32(line.encode())}}}'


def _parse_line(line: str) -> Finished | int | None:
    """Return the shard of a line, the number of shards of a complete run, or None if damaged."""
    text = line.rpartition(', "crc": ')[0] + "}"
    if line != _add_checksum(text):
        return None
    try:
        fields = json.loads(text)
        if "complete" in fields:
            return int(fields["complete"])
        failures = [Rejected(**one) for one in fields.pop("failures")]
        return Finished(**fields, failures=failures)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # the line of another program


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, where the system can. A kill frees the lock."""
    if is_remote(folder):
        yield
        return
    for name in ("shards", ".lock", "manifest.json", "progress.jsonl", "errors.jsonl"):
        if (folder / name).is_symlink():
            raise BulkError(f"{folder / name}: is a link; expected a file or folder of this run")
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    with open_own(folder / ".lock", "ab") as file:
        with suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BulkError(f"{folder}: another process is writing to this folder") from None
        yield
