"""Ends of a command: one line for a wrong input, and the next step after success."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

RESUMABLE = ("aggregate", "annotate", "audit", "distill", "scores", "tune")
"""Commands that keep their finished parts, from which the same command goes on."""


def spacy_command(*words: object, **options: object) -> str:
    """Return a command of `python -m spacy`, quoted for the shell. options: None has none."""
    if options.get("lang") == "xx":  # the default
        del options["lang"]
    given = [each for name, value in options.items() if value for each in (f"--{name}", value)]
    quote = subprocess.list2cmdline if os.name == "nt" else shlex.join
    return f"python -m spacy {quote([*map(str, (*words, *given))])}"


def explain(error: Exception) -> str:
    """Return the message of an error, which names the file first."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def make_command(name: str, function: Callable[..., str | None]) -> Callable[..., None]:
    """Return a command that prints the next step that the function returns.

    Wrong input ends it with one line and exit code 1, Ctrl-C with 130.
    """

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            step = function(*args, **kwargs)
        except BrokenPipeError:
            # The reader of the output, such as `head`, has enough. Python flushes stdout at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            resumes = ". The same command goes on from here" * (name in RESUMABLE)
            typer.echo(f"Stopped{resumes}", err=True)
            raise typer.Exit(130) from None
        except (ValueError, OSError, ImportError) as err:
            # wasabi's printer would wrap the line.
            typer.secho(explain(err), fg="red", err=True)
            raise typer.Exit(1) from None
        if step:
            # stdout may have data for another program.
            typer.echo(f"next: {step}", err=True)

    return run
