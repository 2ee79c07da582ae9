"""`python -m spacy bcrf migrate`"""

from configparser import Error as InterpolationError
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt, import_code

from spacy_bcrf.io.atomic import replacing

from .errors import exit_on
from .paths import check_output_file
from .registry_names import explain_name

HEADS = "CRF, BCRF, MeanField, Unstructured, SAPO, Perceptron, MIRA"


def migrate_cli(
    config: Annotated[Path, Arg(help="Training config of spaCy", exists=True, dir_okay=False)],
    output: Annotated[Path, Opt("--output", "-o", help="Config to write")],
    head: Annotated[str, Opt("--head", help=f"One of {HEADS}")] = "BCRF",
    code: Annotated[
        Path | None, Opt("--code", "-c", help="Python file with registered functions")
    ] = None,
) -> None:
    """
    Replace `ner`, `tagger` and `spancat` in a training config by `bcrf_ner`, `bcrf_tagger` and
    `bcrf_chunker`. Names, tok2vec, listeners and all other settings stay.
    """
    with exit_on(ValueError, OSError):
        if head not in HEADS.split(", "):
            raise ValueError(f"--head {head}: expected one of {HEADS}")
        check_output_file(output, config)
        import_code(code)
        for name, (old, new) in migrate(config, output, f"spacy-bcrf.{head}.v1"):
            typer.echo(f"[components.{name}] {old} -> {new}")
        typer.echo(f"{output}: train it by `python -m spacy train {output} --output FOLDER`")


def migrate(path: Path, output: Path, head: str) -> list[tuple[str, tuple[str, str]]]:
    """Migrate a config file. Print notes. RETURNS the old and new factory of each component."""
    from spacy import util

    from spacy_bcrf.analysis.migration import migrate_config

    try:
        migrated = migrate_config(util.load_config(path, interpolate=False), head)
        # References to removed settings and unknown functions show here.
        migrated.config.interpolate()
        util.load_model_from_config(migrated.config, auto_fill=True)
    except (ValueError, InterpolationError) as error:
        raise ValueError(f"{path}: {explain_name(error)}") from None
    with replacing(output) as part:
        migrated.config.to_disk(part, interpolate=False)
    for note in migrated.notes:
        typer.echo(f"Note: {note}")
    return list(migrated.components.items())
