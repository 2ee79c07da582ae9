"""`python -m spacy bcrf ...`: importing this module adds the commands to spaCy's own.

spaCy's command line imports it through the entry point `spacy_cli`.
"""

import typer
from spacy.cli import app as spacy_app

from .audit import audit_cli
from .calibrate import calibrate_cli
from .clusters import clusters_cli
from .combine import combine_cli
from .control import control_cli
from .convert import convert_cli
from .debug import debug_cli
from .explain import explain_cli
from .inspect import inspect_cli
from .mask import mask_cli
from .migrate import migrate_cli
from .rank import rank_cli
from .review import review_cli

app = typer.Typer(help="Structured sequence labeling.", no_args_is_help=True)
app.command("convert")(convert_cli)
app.command("audit")(audit_cli)
app.command("calibrate")(calibrate_cli)
app.command("clusters")(clusters_cli)
app.command("combine")(combine_cli)
app.command("control")(control_cli)
# Other options, such as --paths.train, override the config.
app.command("debug", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    debug_cli
)
app.command("inspect")(inspect_cli)
app.command("mask")(mask_cli)
app.command("migrate")(migrate_cli)
app.command("rank")(rank_cli)
app.command("review")(review_cli)
app.command("explain")(explain_cli)


@app.callback()
def _group() -> None:
    """Keep `bcrf` a group: without a callback, Typer makes a single command the whole group."""


spacy_app.add_typer(app, name="bcrf")
