"""Ends of a command: one line for a wrong input, and the next step after success."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, get_type_hints

import typer
from typer.models import OptionInfo

RESUMABLE = ("aggregate", "annotate", "audit", "distill", "scores", "tune")
"""Commands that keep their finished parts, from which the same command goes on."""


def spacy_command(*words: object, **options: object) -> str:
    """Return a command of `python -m spacy`, quoted for the shell. options: None has none."""
    if options.get("lang") == "xx":  # the default
        del options["lang"]
    given = [each for name, value in options.items() if value for each in (f"--{name}", value)]
    quote = subprocess.list2cmdline if os.name == "nt" else shlex.join
    return f"python -m spacy {quote([*map(str, (*words, *given))])}"


def explain_error(error: Exception, command: Callable[..., Any]) -> str:
    """Return the message of an error, which names the file first, with names of options.

    The library writes the name of an argument in backticks, also `name=value`. A last way that
    needs an option which the command lacks is left out.
    """
    if isinstance(error, FileExistsError):
        return f"{error.filename} exists; expected another --output, or --force"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    hints = get_type_hints(command, include_extras=True)

    def name_option(found: re.Match[str]) -> str:
        way, name, value = found.groups("")
        (option,) = getattr(hints.get(name), "__metadata__", (None,))
        if not isinstance(option, OptionInfo):
            return "" if way else found.group()
        # Typer takes the first name for the default until it reads the annotation.
        names = [x for x in (option.default, *(option.param_decls or ())) if isinstance(x, str)]
        declared = names or [f"--{name.replace('_', '-')}"]
        longest = max((each.partition("/")[0] for each in declared), key=len)
        return f"{way}{longest} {value}" if value else way + longest

    return re.sub(r"(, or (?:another|give) )?`(\w+)(?:=([^`]+))?`", name_option, str(error))


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
            typer.secho(explain_error(err, function), fg="red", err=True)
            raise typer.Exit(1) from None
        if step:
            # stdout may have data for another program.
            typer.echo(f"next: {step}", err=True)

    return run
