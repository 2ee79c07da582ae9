"""`python -m spacy bcrf ...`: importing this module adds the commands to spaCy's own.

spaCy's command line imports it through the entry point `spacy_cli`.
"""

from importlib import import_module
from itertools import chain
from typing import Annotated, Any

import typer
from spacy.cli import app as spacy_app
from spacy.cli._util import Opt
from typer.core import TyperGroup

from bcrf import __version__

from .errors import make_command

PANELS = {
    "Data": ("convert", "debug", "clusters", "scores", "curve"),
    "Learning": ("init", "migrate", "tune", "combine", "extend", "aggregate", "distill"),
    "Judging": ("calibrate", "control", "verify", "report", "explain", "monitor"),
    "Annotating": ("rank", "review", "audit"),
    "Running": ("annotate", "redact", "restore", "serve", "export"),
}
"""The commands by topic, in the order of a project."""


class Panels(TyperGroup):
    """Commands whose help has a section for each topic. spaCy switches off Typer's own panels."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:  # with Pydantic's prefix in some versions of Typer
            error.message = error.message.removeprefix("Value error, ")
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, names in PANELS.items():
            found = [(name, self.commands[name]) for name in names if name in self.commands]
            if found:
                # The width of the longest name, and of spaces around both columns.
                limit = formatter.width - 6 - max(map(len, self.commands))
                with formatter.section(panel):
                    formatter.write_dl(
                        [(name, command.get_short_help_str(limit)) for name, command in found]
                    )


app = typer.Typer(
    cls=Panels,
    help="Structured sequence labeling: from data to a trained, calibrated and running pipeline. "
    "Exit codes: 1 for an error, 2 for a wrong option, 3 for failed documents (`annotate`) or "
    "drift (`monitor`), 4 for unread parts of files (`annotate`), 130 after Ctrl-C.",
    no_args_is_help=True,
)
# Other options, such as --paths.train, override the config.
_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
EXTRA = {"debug": _OVERRIDES, "tune": _OVERRIDES}
try:
    for _name in chain.from_iterable(PANELS.values()):
        _command = getattr(import_module(f".{_name}_cli", __package__), f"{_name}_cli")
        app.command(_name, context_settings=EXTRA.get(_name))(make_command(_name, _command))
except KeyboardInterrupt:  # Typer handles Ctrl-C only once a command runs.
    raise SystemExit(130) from None


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[
        bool, Opt("--version", callback=_show_version, is_eager=True, help="Print the version")
    ] = False,
) -> None:
    """Keep `bcrf` a group: without a callback, Typer makes a single command the whole group."""


spacy_app.add_typer(app, name="bcrf")
