"""`python -m spacy bcrf ...`: importing this module adds the commands to spaCy's own.

spaCy's command line imports it through the entry point `spacy_cli`.
"""

from typing import Any

import typer
from spacy.cli import app as spacy_app
from typer.core import TyperGroup

from .annotate import annotate_cli
from .audit import audit_cli
from .calibrate import calibrate_cli
from .clusters import clusters_cli
from .combine import combine_cli
from .control import control_cli
from .convert import convert_cli
from .debug import debug_cli
from .distill import distill_cli
from .explain import explain_cli
from .extend import extend_cli
from .inspect import inspect_cli
from .mask import mask_cli
from .migrate import migrate_cli
from .rank import rank_cli
from .report import report_cli
from .review import review_cli

PANELS = {
    "Data": ("convert", "inspect", "debug", "mask", "clusters"),
    "Learning": ("migrate", "combine", "extend", "distill"),
    "Judging": ("calibrate", "control", "report", "explain"),
    "Annotating": ("rank", "review", "audit"),
    "Running": ("annotate",),
}
"""The commands by topic, in the order of a project."""


class Panels(TyperGroup):
    """A group of commands whose help has a section for each topic.

    spaCy switches off Typer's own panels.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
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
    help="Structured sequence labeling: from data to a trained, calibrated and running pipeline.",
    no_args_is_help=True,
)
app.command("convert")(convert_cli)
app.command("annotate")(annotate_cli)
app.command("audit")(audit_cli)
app.command("calibrate")(calibrate_cli)
app.command("clusters")(clusters_cli)
app.command("combine")(combine_cli)
app.command("control")(control_cli)
# Other options, such as --paths.train, override the config.
app.command("debug", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    debug_cli
)
app.command("distill")(distill_cli)
app.command("extend")(extend_cli)
app.command("inspect")(inspect_cli)
app.command("mask")(mask_cli)
app.command("migrate")(migrate_cli)
app.command("rank")(rank_cli)
app.command("report")(report_cli)
app.command("review")(review_cli)
app.command("explain")(explain_cli)


@app.callback()
def _group() -> None:
    """Keep `bcrf` a group: without a callback, Typer makes a single command the whole group."""


spacy_app.add_typer(app, name="bcrf")
