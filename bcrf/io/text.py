"""Lines of plain or compressed text files, each with its file and line number."""

import bz2
import codecs
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".xz": lzma.open,
    ".gz": gzip.open,
    ".bz2": bz2.open,
}
"""By the suffix of files that are decompressed."""

BLOCK = 1 << 20
"""Size of the pieces of a long line, in bytes."""
MAX_LINE = 16 * BLOCK
"""Largest size of a line, in bytes: a small compressed file can hold a line of many gigabytes."""


BOM = "\ufeff"
"""The byte order mark with which a text may begin."""
_CONTROLS = re.compile(rb"[\0-\b\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text in any encoding of bytes has."""


class CorpusError(ValueError):
    """A file is wrong. The message names the file, the line if there is one, and the error."""


class UnreadableError(CorpusError):
    """The system cannot read a file, perhaps only now. Its content may be right."""


class Line(NamedTuple):
    """One line without its line break, or a piece of one.

    number: counts from 1. problem: why the line cannot be read; its text then has
    surrogates in place of the bytes, or is empty. ends: whether no more pieces of the line follow.
    around: what the file has before and behind the text: a byte order mark, and a line break.
    """

    path: Path
    number: int
    text: str
    problem: str | None = None
    ends: bool = True
    around: tuple[str, str] = "", ""

    @property
    def source(self) -> str:
        """The line as the file has it."""
        return self.text.join(self.around)

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


HAS_NUL = "has NUL characters, as UTF-16 has (iconv -f UTF-16 -t UTF-8)"
_UTF16_MARKS = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE


def check_text(path: Path) -> None:
    """Raise CorpusError for a file that is UTF-16 or binary, by its first bytes."""
    if not path.is_file():  # a pipe can be read once
        return
    with open_decompressed(path) as stream:
        head = stream.read(1 << 13)
    if head.startswith(_UTF16_MARKS):
        raise CorpusError(f"{path}: is UTF-16; iconv -f UTF-16 -t UTF-8 converts it")
    try:
        codecs.getincrementaldecoder("utf8")().decode(head)
    except UnicodeDecodeError:
        if _CONTROLS.search(head):
            raise CorpusError(f"{path}: is binary; expected a UTF-8 text") from None


def explain_encoding(error: UnicodeDecodeError) -> str:
    """Return what is wrong with the bytes of a file."""
    encoding = "UTF-16" if error.object.startswith(_UTF16_MARKS) else "ENCODING"
    place = f"byte {error.start + 1}"
    return f"{place} is not UTF-8 (iconv -f {encoding} -t UTF-8 converts a file)"


def explain_utf8(error: UnicodeDecodeError, end: int) -> str:
    """Return what is wrong with a stream. end: its bytes so far, the last of `error.object`."""
    at = end - len(error.object) + error.start
    return f"is not UTF-8: byte 0x{error.object[error.start]:02x} at {at}"


def read_lines(
    path: Path, advance: Callable[[int], object] = lambda n_bytes: None
) -> Iterator[Line]:
    """Yield the lines of a UTF-8 file as `scan_lines` does. CorpusError for a bad line too."""
    for line in scan_lines(path, advance):
        if line.problem is not None:
            raise line.error(f"{line.problem}; expected a UTF-8 text with a record on each line")
        yield line


def scan_lines(
    path: Path,
    advance: Callable[[int], object] = lambda n_bytes: None,
    *,
    in_pieces: bool = False,
) -> Iterator[Line]:
    """Yield the lines of a UTF-8 file. `.xz`, `.gz` and `.bz2` files are decompressed.

    `advance` receives the number of bytes read since its last call. Only a line feed, with or
    without a carriage return, ends a line: treebanks have words with the other characters that
    `str.splitlines` splits at. A line that is not UTF-8, or longer than MAX_LINE bytes, has a
    problem, and the next line follows. in_pieces: a line longer than BLOCK bytes comes in several
    pieces, all with its number. Bytes that are not UTF-8 are half surrogate pairs in the text of a
    piece. CorpusError if the file cannot be read, or is a broken archive.
    """
    number, column, rest, ends = 0, 0, b"", True
    try:
        with _open(path) as raw, _OPENERS.get(path.suffix, _plain)(raw) as stream:
            # A pipe has neither position nor length.
            tell = raw.tell if raw.seekable() else int
            position = 0
            while read := stream.readline(BLOCK if in_pieces else MAX_LINE + 1):
                number += ends
                mark = ""
                if number == 1 and not column and read.startswith(codecs.BOM_UTF8):
                    mark, read = BOM, read[len(codecs.BOM_UTF8) :]
                data, rest, problem = rest + read, b"", None
                ends = read.endswith(b"\n")
                try:
                    text = data.decode()
                except UnicodeDecodeError as error:
                    # A piece may end within a character, which has at most four bytes.
                    if in_pieces and not ends and error.start >= len(data) - 3:
                        rest = data[error.start :]
                        text = data[: error.start].decode()
                    else:
                        problem = _not_utf8(data[error.start], column + error.start)
                        text = data.decode(errors="surrogateescape")
                if "\0" in text:
                    problem = problem or HAS_NUL
                if not in_pieces and len(read) > MAX_LINE:
                    text, problem = "", f"the line is longer than {MAX_LINE >> 20} MiB"
                    while not ends and (read := stream.readline(BLOCK)):
                        ends = read.endswith(b"\n")
                ends = ends or not in_pieces
                column = 0 if ends else column + len(data) - len(rest)
                inner = text.removesuffix("\n").removesuffix("\r")
                yield Line(path, number, inner, problem, ends, (mark, text[len(inner) :]))
                if number % 1000 == 0 or not ends:
                    advance(tell() - position)
                    position = tell()
            if not ends:
                problem = _not_utf8(rest[0], column) if rest else None
                yield Line(path, number, "", problem)
            advance(tell() - position)
    except _READING_ERRORS as err:
        raise _describe(path, err, f", readable up to line {number}") from None


def _not_utf8(byte: int, column: int) -> str:
    place = f"byte 0x{byte:02x} at column {column + 1}"
    return f"{place} is not UTF-8 (iconv -f ENCODING -t UTF-8 converts a file)"


@contextmanager
def open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, decompressed by suffix.

    CorpusError for a broken compressed file, UnreadableError if the system cannot read it.
    """
    try:
        with _open(path) as raw, _OPENERS.get(path.suffix, _plain)(raw) as stream:
            yield stream
    except _READING_ERRORS as err:
        raise _describe(path, err) from None


_BROKEN = EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile
_READING_ERRORS = *_BROKEN, OSError


def _open(path: Path) -> IO[bytes]:
    """Open a file. UnreadableError if that fails: paths of stores have errors of their own."""
    try:
        return path.open("rb")
    except Exception as error:
        raise _unreadable(path, error) from None


def _describe(path: Path, error: Exception, readable: str = "") -> CorpusError:
    """Return the error of a broken compressed file, or of a file that the system cannot read."""
    # bz2 and Arrow raise OSError for broken content too, without the number of a system's error.
    has_no_number = type(error) is OSError and error.errno is None
    if has_no_number or isinstance(error, _BROKEN):
        return CorpusError(f"{path}: broken or truncated {path.suffix} file{readable}: {error}")
    return _unreadable(path, error)


def _unreadable(path: Path, error: Exception) -> UnreadableError:
    return UnreadableError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _plain(raw: IO[bytes]) -> IO[bytes]:
    return raw
