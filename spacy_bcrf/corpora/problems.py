"""What all conversions share: the files under a progress bar, and reports of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from bcrf.io.text import CorpusError

MAX_REPORTS = 20
"""Largest number of problems that a conversion names."""

T = TypeVar("T")


class Problems:
    """Reports the first MAX_REPORTS problems, each with file and line, and counts the others.

    report: receives each message. unit: what the problems leave out, in the plural.
    """

    in_error = False
    """Whether the problems become an error."""

    def __init__(self, report: Callable[[str], object], unit: str) -> None:
        self.report, self.unit = report, unit
        self.n = self.n_more = 0

    def add(self, message: str, n: int = 1) -> None:
        """Report a problem of n units."""
        if self.n < MAX_REPORTS:
            self.report(message)
        else:
            self.n_more += n
        self.n += n

    def fail(self, error: CorpusError) -> None:
        """Raise an error of a whole file, after the reports."""
        self.finish()
        raise error

    def finish(self) -> None:
        """Report how many others there are."""
        if self.n_more:
            self.report(f"and {self.n_more:,} more {self.unit}")


class AllProblems(Problems):
    """Collects the reports, for one error that names all bad places. advice: its last sentence."""

    in_error = True

    def __init__(self, unit: str, advice: str) -> None:
        self.lines: list[str] = []
        self.advice = advice
        super().__init__(self.lines.append, unit)

    def fail(self, error: CorpusError) -> None:
        """Add an error of a whole file."""
        self.report(str(error))

    def finish(self) -> None:
        """Raise CorpusError if there are problems."""
        super().finish()
        if self.lines:
            raise CorpusError("\n".join(self.lines) + (f". {self.advice}" if self.n else ""))


def each_file(
    sources: Sequence[tuple[Path, T]],
) -> Iterator[tuple[Path, T, Callable[[int], object]]]:
    """Yield the sources under a progress bar. The third value receives numbers of read bytes."""
    n_bytes = sum(path.stat().st_size for path, _ in sources if path.is_file())
    with tqdm(total=n_bytes, unit="B", unit_scale=True, delay=1.0, disable=None) as progress:
        for path, reader in sources:
            progress.set_description(path.name, refresh=False)
            yield path, reader, progress.update
