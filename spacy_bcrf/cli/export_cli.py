"""`python -m spacy bcrf export`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Opt

from .options import Model, PipeNames
from .paths import check_output_file


def export_cli(
    model: Model,
    output: Annotated[Path, Opt("--output", "-o", help="File to write, .bcrf or .bcrf.gz")],
    pipe: PipeNames = None,
) -> None:
    """
    Write a pipeline of linear chains to a file, which the JavaScript of js/ runs in a browser.

    It refuses what needs Python, such as networks, vectors and scores of other models.
    """
    from spacy_bcrf.browser.export import export
    from spacy_bcrf.loading import load_pipeline

    check_output_file(output, ".bcrf .gz", Path(model))
    nlp = load_pipeline(model)
    size = export(nlp, output, pipes=pipe or ())
    typer.echo(f"{output}: {size:,} bytes")
