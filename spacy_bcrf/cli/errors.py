"""How a command ends when its input is wrong: one line on stderr, exit code 1, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def exit_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with the message of such an error."""
    try:
        yield
    except errors as err:
        # Not wasabi's printer, which would wrap the line.
        typer.secho(str(err), fg="red", err=True)
        raise typer.Exit(1) from None
