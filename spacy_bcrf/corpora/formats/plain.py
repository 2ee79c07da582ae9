"""Plain texts: one on each line, or one in the file."""

from collections.abc import Iterator
from pathlib import Path

from bcrf.io.text import HAS_NUL, MAX_LINE, explain_encoding, open_decompressed, scan_lines
from spacy_bcrf.corpora.texts import Advance, Rejected, TextColumns, TextItem, TextRecord

from .brat import has_annotation


def read_texts(path: Path, columns: TextColumns, advance: Advance) -> Iterator[TextItem]:
    if not (columns.whole_files or has_annotation(path)):
        for line in scan_lines(path, advance):
            place = f"{path}:{line.number}"
            if line.problem is not None:
                yield Rejected(place, place, line.problem)
            elif line.text.strip():
                yield TextRecord(place, place, line.text)
        return
    yield read_whole(path, advance)


def read_whole(path: Path, advance: Advance, encoding: str = "utf-8-sig") -> TextItem:
    """Return the text of a file. encoding: "utf-8" keeps a byte order mark."""
    name = str(path)
    with open_decompressed(path) as stream:
        data = stream.read(MAX_LINE + 1)
    if len(data) > MAX_LINE:
        reason = f"has more than {MAX_LINE >> 20} MiB; expected one document"
        return Rejected(name, name, reason)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        return Rejected(name, name, explain_encoding(error))
    if "\0" in text:
        return Rejected(name, name, HAS_NUL)
    advance(path.stat().st_size)
    return TextRecord(name, name, text)
