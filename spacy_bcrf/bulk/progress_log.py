"""Logs of finished shards: one line for each, durable once `append` returns."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from spacy_bcrf.io.atomic import open_own, write_text
from spacy_bcrf.io.remote import find_below

MAX_SEGMENT = 1 << 18
"""A segment of a remote log ends after this number of bytes."""


class ProgressLog(Protocol):
    """Lines that survive a kill."""

    def read(self) -> Iterator[tuple[str, str]]:
        """Yield the place and the text of each line."""

    def append(self, line: str) -> None:
        """Add a line. OSError or an error of the store if that fails."""

    def keep(self, is_kept: Callable[[str], bool]) -> None:
        """Remove all other lines."""


class LocalLog:
    """The file `progress.jsonl`. A killed process can leave half a line, which `read` removes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "progress.jsonl"

    def read(self) -> Iterator[tuple[str, str]]:
        end = 0
        with open_own(self.path, "ab+") as log:
            log.seek(0)
            for number, line in enumerate(log, start=1):
                if not line.endswith(b"\n"):
                    break
                yield f"{self.path}:{number}", line.decode(errors="replace").removesuffix("\n")
                end += len(line)
            log.truncate(end)

    def append(self, line: str) -> None:
        with open_own(self.path, "ab") as log:
            log.write(f"{line}\n".encode())
            log.flush()
            os.fsync(log.fileno())

    def keep(self, is_kept: Callable[[str], bool]) -> None:
        lines = [f"{line}\n" for _, line in self.read() if is_kept(line)]
        write_text(self.path, "".join(lines))


class RemoteLog:
    """Objects in `progress/`, because stores cannot append.

    Each run replaces its last object until that has MAX_SEGMENT bytes. The names are unique, so two
    runs at the same time lose no lines. Both may list the same shard.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "progress"
        self._start()

    def _start(self) -> None:
        self._path = self.folder / f"{uuid.uuid4().hex}.jsonl"
        self._text = ""

    def read(self) -> Iterator[tuple[str, str]]:
        for path in find_below(self.folder):
            lines = path.read_text(encoding="utf8").splitlines()
            yield from ((f"{path}:{i}", line) for i, line in enumerate(lines, start=1))

    def append(self, line: str) -> None:
        self._text += f"{line}\n"
        write_text(self._path, self._text)
        if len(self._text) > MAX_SEGMENT:
            self._start()

    def keep(self, is_kept: Callable[[str], bool]) -> None:
        for path in find_below(self.folder):
            lines = path.read_text(encoding="utf8").splitlines()
            write_text(path, "".join(f"{line}\n" for line in lines if is_kept(line)))
