"""Log of finished shards: one line for each, durable once `append` returns."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from bcrf.io.atomic import open_own, write_text
from spacy_bcrf.corpora.remote import find_below, is_remote

MAX_SEGMENT = 1 << 18
"""An object of a remote log ends after this number of bytes."""


class ProgressLog:
    """Lines of `progress.jsonl`, or of objects in `progress/`, because stores cannot append.

    Each run replaces its last object until that has MAX_SEGMENT bytes. The names are unique, so two
    runs at the same time lose no lines. Both may list the same shard.
    """

    def __init__(self, folder: Path) -> None:
        self._is_remote = is_remote(folder)
        self.path = folder / ("progress" if self._is_remote else "progress.jsonl")
        self._text = ""
        """The content of the last object."""

    def _files(self) -> list[Path]:
        if self._is_remote:
            return find_below(self.path)
        return [self.path] if self.path.exists() else []

    def read(self) -> Iterator[tuple[str, str]]:
        """Yield the place and the text of each line."""
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
        """Remove all other lines."""
        for path in self._files():
            write_text(path, "".join(f"{line}\n" for line in self._lines(path) if is_kept(line)))
