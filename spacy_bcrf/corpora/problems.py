"""What all conversions share: the files under a progress bar, and reports of problems."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from bcrf.io.text import CorpusError

MAX_REPORTS = 20
"""Largest number of problems that a conversion names."""

T = TypeVar("T")


class Problems:
    """The first MAX_REPORTS problems, each with file and line, and the number of the others.

    fatal: whether a file cannot be read.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._n_more = 0
        self.fatal = False

    def add(self, message: str, n: int = 1) -> None:
        """Add a problem of n records."""
        if len(self._lines) < MAX_REPORTS:
            self._lines.append(message)
        else:
            self._n_more += n

    def fail(self, error: CorpusError) -> None:
        """Add the error of a whole file."""
        self.fatal = True
        self._lines.append(str(error))

    def lines(self) -> list[str]:
        """Return the lines of a report."""
        return self._lines + [f"and {self._n_more:,} more problems"] * bool(self._n_more)


def each_file(
    sources: Sequence[tuple[Path, T]],
) -> Iterator[tuple[Path, T, Callable[[int], object]]]:
    """Yield the sources under a progress bar. The third value receives numbers of read bytes."""
    n_bytes = sum(path.stat().st_size for path, _ in sources if path.is_file())
    with tqdm(total=n_bytes, unit="B", unit_scale=True, delay=1.0, disable=None) as progress:
        for path, reader in sources:
            progress.set_description(path.name, refresh=False)
            yield path, reader, progress.update
