"""Standard input as it arrives, and the secret of a file."""

import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bcrf.io.text import explain_utf8


def read_key(path: Path) -> bytes:
    """Return a secret. ValueError for an empty file."""
    secret = path.read_bytes().strip()
    if not secret:
        raise ValueError(f"{path}: is empty; expected a secret, such as 32 random characters")
    return secret


def read_pieces(file: BinaryIO) -> Iterator[str]:
    """Yield the text as it arrives. ValueError naming the first byte that is no UTF-8."""
    decoder, n = getincrementaldecoder("utf8")(), 0
    read: Any = getattr(file, "read1", file.read)
    part = b" "
    while part:
        n += len(part := read(1 << 16))
        try:
            yield decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            yield error.object[: error.start].decode()
            raise ValueError(f"standard input {explain_utf8(error, n)}") from None


def write_piece(text: str) -> None:
    if text:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
