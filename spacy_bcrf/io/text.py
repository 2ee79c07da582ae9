"""Lines of plain or compressed text files, each with its file and line number."""

import bz2
import codecs
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


BLOCK = 1 << 20
"""Size of the pieces of a long line, in bytes."""
MAX_LINE = 16 * BLOCK
"""Largest size of a line, in bytes: a small compressed file can hold a line of many gigabytes."""


class CorpusError(ValueError):
    """A file cannot be converted. The message names the file, the line and the error."""


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
    number, is_open, n_pieces = 0, False, 0
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        with path.open("rb") as raw, _OPENERS.get(path.suffix, _plain)(raw) as stream:
            # A pipe has neither position nor length.
            tell = raw.tell if raw.seekable() else int
            position = 0
            while data := stream.readline(BLOCK if in_pieces else MAX_LINE + 1):
                number += not is_open
                n_pieces = n_pieces + 1 if is_open else 0
                is_open = not data.endswith(b"\n")
                if len(data) > MAX_LINE:
                    raise CorpusError(
                        f"{path}:{number}: the line is longer than {MAX_LINE >> 20} MiB; expected "
                        "a text file with a word or a record on each line"
                    )
                try:
                    text = decoder.decode(data, final=not is_open)
                except UnicodeDecodeError as err:
                    column = n_pieces * BLOCK + err.start + 1
                    raise CorpusError(
                        f"{path}:{number}: byte 0x{err.object[err.start]:02x} at column {column} "
                        "is not UTF-8; expected a text file encoded as UTF-8"
                    ) from None
                yield Line(path, number, text.removesuffix("\n").removesuffix("\r"))
                if number % 1000 == 0 or n_pieces:
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
