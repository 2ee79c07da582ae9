"""Lines of plain or compressed text files, each knowing where it stands."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".xz": lzma.open,
    ".gz": gzip.open,
    ".bz2": bz2.open,
}


class CorpusError(ValueError):
    """A file that cannot be converted: its message names the file, the line and what is wrong."""


class Line(NamedTuple):
    """One line without its line break, and its place: file and number, from 1."""

    path: Path
    number: int
    text: str

    def error(self, what: str) -> CorpusError:
        return CorpusError(f"{self.path}:{self.number}: {what}")


def text_suffix(path: Path) -> str:
    """The extension that says the format, lower case: `.conllu` of `dev.conllu.xz`."""
    return (path.with_suffix("") if path.suffix in _OPENERS else path).suffix.lower()


def find_file(path: Path) -> Path:
    """`path`, or, if there is no such file, the compressed one of that name with an extension."""
    packed = (path.with_name(path.name + suffix) for suffix in _OPENERS)
    return path if path.exists() else next(filter(Path.exists, packed), path)


def read_lines(
    path: Path, advance: Callable[[int], object] = lambda n_bytes: None
) -> Iterator[Line]:
    """The lines of a UTF-8 file, decompressed where it is named `.xz`, `.gz` or `.bz2`.

    `advance` is told from time to time how many more bytes of the file have been read. Only line
    feeds, with or without a carriage return, end a line: treebanks have words with all the other
    characters that `str.splitlines` splits at. CorpusError if the file cannot be read or decoded.
    """
    number = 0
    try:
        with path.open("rb") as raw, _OPENERS.get(path.suffix, _plain)(raw) as stream:
            # A pipe has no position, and nobody knows its length.
            tell = raw.tell if raw.seekable() else int
            position = 0
            for number, data in enumerate(stream, start=1):
                try:
                    text = data.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as err:
                    raise CorpusError(
                        f"{path}:{number}: byte 0x{data[err.start]:02x} at column {err.start + 1} "
                        "is not UTF-8; expected a text file encoded as UTF-8"
                    ) from None
                yield Line(path, number, text.removesuffix("\n").removesuffix("\r"))
                if number % 1000 == 0:
                    advance(tell() - position)
                    position = tell()
            advance(tell() - position)
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as err:
        raise CorpusError(
            f"{path}: broken or truncated {path.suffix} file, readable up to line {number}: {err}"
        ) from None
    except OSError as err:
        raise CorpusError(f"{path}: cannot be read: {err.strerror or err}") from None


def _plain(raw: IO[bytes]) -> IO[bytes]:
    return raw
