"""Lines of plain or compressed text files, each with its file and line number."""

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from .remote import describe, is_remote, open_bytes, path_errors

_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".xz": lzma.open,
    ".gz": gzip.open,
    ".bz2": bz2.open,
}


BLOCK = 1 << 20
"""Size of the pieces of a long line, in bytes."""
MAX_LINE = 16 * BLOCK
"""Largest size of a line, in bytes: a small compressed file can hold a line of many gigabytes."""


class CorpusError(ValueError):
    """A file cannot be converted. The message names the file, the line and the error."""


class UnreadableError(CorpusError):
    """The system cannot read a file, perhaps only now. Its content may be right."""


class Line(NamedTuple):
    """One line without its line break. number: counts from 1."""

    path: Path
    number: int
    text: str

    def error(self, message: str) -> CorpusError:
        """Return an error that names this line."""
        return CorpusError(f"{self.path}:{self.number}: {message}")


def text_suffix(path: Path) -> str:
    """Return the extension without compression, in lower case: `.conllu` for `dev.conllu.xz`."""
    return (path.with_suffix("") if path.suffix in _OPENERS else path).suffix.lower()


def find_file(path: Path) -> Path:
    """Return `path` if it exists, else its compressed version (`path` plus an extension)."""
    packed = (path.with_name(path.name + suffix) for suffix in _OPENERS)
    return path if path.exists() else next(filter(Path.exists, packed), path)


def read_lines(
    path: Path,
    advance: Callable[[int], object] = lambda n_bytes: None,
    *,
    in_pieces: bool = False,
) -> Iterator[Line]:
    """Yield the lines of a UTF-8 file. `.xz`, `.gz` and `.bz2` files are decompressed.

    `advance` receives the number of bytes read since its last call. Only a line feed, with or
    without a carriage return, ends a line: treebanks have words with the other characters that
    `str.splitlines` splits at. in_pieces: a line longer than BLOCK bytes comes in several pieces,
    all with its number. CorpusError if the file cannot be read or decoded, or if a line that is not
    in pieces is longer than MAX_LINE bytes.
    """
    number, column, rest = 0, 0, b""

    def not_utf8(start: int) -> CorpusError:
        return CorpusError(
            f"{path}:{number}: byte 0x{data[start]:02x} at column {column + start + 1} is not "
            "UTF-8; expected a text file encoded as UTF-8"
        )

    try:
        with open_bytes(path) as raw, _OPENERS.get(path.suffix, _plain)(raw) as stream:
            # A pipe has neither position nor length.
            tell = raw.tell if raw.seekable() else int
            position = 0
            while read := stream.readline(BLOCK if in_pieces else MAX_LINE + 1):
                number += not column
                if len(read) > MAX_LINE:
                    raise CorpusError(
                        f"{path}:{number}: the line is longer than {MAX_LINE >> 20} MiB; expected "
                        "a text file with a word or a record on each line"
                    )
                if number == 1 and not column:
                    read = read.removeprefix(codecs.BOM_UTF8)
                data, rest = rest + read, b""
                try:
                    text = data.decode()
                except UnicodeDecodeError as error:
                    # A piece may end within a character, which has at most four bytes.
                    if not in_pieces or read.endswith(b"\n") or error.start < len(data) - 3:
                        raise not_utf8(error.start) from None
                    rest = data[error.start :]
                    text = data[: error.start].decode()
                column = 0 if read.endswith(b"\n") else column + len(data) - len(rest)
                yield Line(path, number, text.removesuffix("\n").removesuffix("\r"))
                if number % 1000 == 0 or column:
                    advance(tell() - position)
                    position = tell()
            if rest:
                data = rest
                raise not_utf8(0)
            advance(tell() - position)
    except _reading_errors() as err:
        raise _describe(path, err, f", readable up to line {number}") from None


@contextmanager
def open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes. `.xz`, `.gz` and `.bz2` files are decompressed.

    CorpusError for a broken compressed file, UnreadableError if the system cannot read the file.
    """
    try:
        with open_bytes(path) as raw, _OPENERS.get(path.suffix, _plain)(raw) as stream:
            yield stream
    except _reading_errors() as err:
        raise _describe(path, err) from None


_BROKEN = EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile


def _reading_errors() -> tuple[type[Exception], ...]:
    return *_BROKEN, *path_errors()


def _describe(path: Path, error: Exception, readable: str = "") -> CorpusError:
    """Return the error of a broken compressed file, or of a file that the system cannot read."""
    # bz2 and Arrow raise OSError for broken content too, without the number of a system's error.
    has_no_number = type(error) is OSError and error.errno is None and not is_remote(path)
    if has_no_number or isinstance(error, _BROKEN):
        return CorpusError(f"{path}: broken or truncated {path.suffix} file{readable}: {error}")
    return UnreadableError(f"{path}: cannot be read: {describe(error)}")


def _plain(raw: IO[bytes]) -> IO[bytes]:
    return raw
