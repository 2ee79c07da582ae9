"""`python -m spacy bcrf migrate`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Opt, import_code

from spacy_bcrf.io.atomic import replacing

from .options import Code, TrainingConfig
from .paths import check_output_file, print_notes
from .registry_names import naming_config

HEADS = "CRF, BCRF, MeanField, Unstructured, SAPO, Perceptron, MIRA"


def migrate_cli(
    config: TrainingConfig,
    output: Annotated[Path, Opt("--output", "-o", help="Config to write")],
    head: Annotated[str, Opt(help=f"One of {HEADS}")] = "BCRF",
    code: Code = None,
) -> str:
    """
    Replace `ner`, `tagger` and `spancat` in a training config by `bcrf_ner`, `bcrf_tagger` and
    `bcrf_chunker`. Names, tok2vec, listeners and all other settings stay.
    """
    if head not in HEADS.split(", "):
        raise ValueError(f"--head {head}: expected one of {HEADS}")
    check_output_file(output, config)
    import_code(code)
    for name, (old, new) in migrate(config, output, f"spacy-bcrf.{head}.v1"):
        typer.echo(f"[components.{name}] {old} -> {new}")
    typer.echo(f"written to {output}")
    return f"python -m spacy train {output} --output out"


def migrate(path: Path, output: Path, head: str) -> list[tuple[str, tuple[str, str]]]:
    """Migrate a config file. Print notes. RETURNS the old and new factory of each component."""
    from spacy import util

    from spacy_bcrf.analysis.migration import migrate_config

    with naming_config(path):
        migrated = migrate_config(util.load_config(path, interpolate=False), head)
        # References to removed settings and unknown functions show here.
        migrated.config.interpolate()
        util.load_model_from_config(migrated.config, auto_fill=True)
    with replacing(output) as part:
        migrated.config.to_disk(part, interpolate=False)
    print_notes(migrated.notes)
    return list(migrated.components.items())
