"""`python -m spacy bcrf scores`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg

from .errors import spacy_command


def scores_cli(
    config: Annotated[
        Path, Arg(help="Training config or trained pipeline with a setting scores", exists=True)
    ],
    corpora: Annotated[list[Path], Arg(help="Corpora, .spacy", exists=True)],
) -> str:
    """
    Run foreign taggers once and keep their scores in a file, which training reads. A killed command
    resumes where it stopped.
    """
    from spacy_bcrf.training.scores import scores

    for found in scores(config, corpora):
        typer.echo(found)
    file = config / "config.cfg" if config.is_dir() else config
    return spacy_command("train", file, "--output", "training")
