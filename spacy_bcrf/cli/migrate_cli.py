"""`python -m spacy bcrf migrate`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Opt, import_code

from bcrf.io.atomic import replacing
from spacy_bcrf.pipeline.config_errors import naming

from .options import Code, TrainingConfig
from .paths import check_output_file, print_notes

HEADS = "CRF, BCRF, MeanField, Unstructured, SAPO, Perceptron, MIRA"


def migrate_cli(
    config: TrainingConfig,
    output: Annotated[Path, Opt("--output", "-o", help="Config to write")],
    head: Annotated[str, Opt(help=f"One of {HEADS}")] = "BCRF",
    code: Code = None,
) -> str:
    """
    Replace `ner`, `tagger` and `spancat` in a training config by `bcrf_ner`, `bcrf_tagger` and
    `bcrf_spans`. Names, tok2vec, listeners and all other settings stay.
    """
    from spacy import util

    from spacy_bcrf.analysis.migrate import migrate_config

    if head not in HEADS.split(", "):
        raise ValueError(f"--head {head}: expected one of {HEADS}")
    check_output_file(output, config)
    import_code(code)
    with naming(config):
        loaded = util.load_config(config, interpolate=False)
        migrated = migrate_config(loaded, f"spacy-bcrf.{head}.v1")
        # References to removed settings and unknown functions show here.
        migrated.config.interpolate()
        util.load_model_from_config(migrated.config, auto_fill=True)
    with replacing(output) as part:
        migrated.config.to_disk(part, interpolate=False)
    print_notes(migrated.notes)
    for name, (old, new) in migrated.components.items():
        typer.echo(f"[components.{name}] {old} -> {new}")
    typer.echo(f"written to {output}")
    return f"python -m spacy train {output} --output out"
