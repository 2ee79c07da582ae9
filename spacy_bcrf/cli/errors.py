"""End of a command with wrong input: one line on stderr, exit code 1, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def exit_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with the message of an error of these types."""
    try:
        yield
    except errors as err:
        # wasabi's printer would wrap the line.
        typer.secho(str(err), fg="red", err=True)
        raise typer.Exit(1) from None
