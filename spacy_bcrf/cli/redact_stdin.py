"""`python -m spacy bcrf redact --stream`: from the standard input to the standard output."""

import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, BinaryIO

import typer
from spacy.language import Language

from bcrf.io.text import explain_utf8

from .paths import print_notes


def redact_stdin(nlp: Language, pipe: str, **options: Any) -> None:
    """Replace the spans of a recall promise in the standard input, which is one text.

    options: see `RedactionStream`. At bad UTF-8 or a signal, it finishes the text before.
    """
    from spacy_bcrf.analysis.control.thresholds import ASSUMPTION
    from spacy_bcrf.analysis.redact_stream import RedactionStream

    stream = RedactionStream(nlp, pipe, **options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # kill ends it as Ctrl-C does
    try:
        for piece in _read(sys.stdin.buffer):
            _write(stream.feed(piece))
    finally:
        rest, report = stream.close()
        _write(rest)
        if report.redacted.text[-1:] not in ("", "\n"):
            typer.echo(err=True)  # messages start on a line of their own
    redacted, late, forced = report
    typer.echo(f"{len(redacted.spans):,} replacements", err=True)
    notes = [
        (len(redacted.left), "found strings still stand at {:,} places, where they are improbable"),
        (len(late), "{:,} repeats were written before their string was found or became probable"),
        (forced, "{:,} uncertain spans were replaced, because their tokens waited for --max-lag"),
    ]
    print_notes([note.format(n) for n, note in notes if n] + [ASSUMPTION])


def _read(file: BinaryIO) -> Iterator[str]:
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


def _write(text: str) -> None:
    if text:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
