"""End of a command with wrong input: one line on stderr, exit code 1, no traceback."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from spacy_bcrf.kernels.not_compiled import NotCompiledError

RESUMES = "Stopped. The same command goes on from here"
"""Message after Ctrl-C of a command that keeps its finished parts."""


@contextmanager
def exit_on(*errors: type[Exception], stopped: str = "Stopped") -> Iterator[None]:
    """End the command with the message of an error of these types, or of Ctrl-C."""
    expected: tuple[type[Exception], ...] = (*errors, NotCompiledError)
    try:
        yield
    except BrokenPipeError:
        # The reader of the output, such as `head`, has enough. Python flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo(stopped, err=True)
        raise typer.Exit(130) from None
    except expected as err:
        # wasabi's printer would wrap the line.
        typer.secho(explain(err), fg="red", err=True)
        raise typer.Exit(1) from None


def explain(error: Exception) -> str:
    """Return the message of an error, which names the file first."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
