"""`python -m spacy bcrf migrate`"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from spacy.cli._util import Arg, Opt, import_code

from bcrf.io.atomic import check_new_folder, replacing
from bcrf.linear.crfsuite_model import MAGIC
from spacy_bcrf.corpora.convert import check_language
from spacy_bcrf.pipeline.config_errors import naming

from .errors import spacy_command
from .options import Code, Force
from .paths import check_output_file, print_notes

Head = Literal["CRF", "BCRF", "MeanField", "Unstructured", "SAPO", "Perceptron", "MIRA"]


def migrate_cli(
    source: Annotated[
        Path, Arg(help="Training config, or a model of CRFsuite", exists=True, dir_okay=False)
    ],
    output: Annotated[Path, Opt("--output", "-o", help="Config to write, or new folder")],
    head: Annotated[Head | None, Opt(help="Of a config (default: BCRF)")] = None,
    code: Code = None,
    lang: Annotated[str | None, Opt("--lang", "-l", help="Of a model (default: en)")] = None,
    force: Force = False,
) -> str:
    """
    Replace `ner`, `tagger` and `spancat` in a training config by `bcrf_ner`, `bcrf_tagger` and
    `bcrf_spans`. Names, tok2vec, listeners and all other settings stay.

    Of a trained CRFsuite model, make a pipeline with a `bcrf_tagger`: equal labels and marginals
    for tokens with the same features.
    """
    with source.open("rb") as file:
        is_model = file.read(len(MAGIC)) == MAGIC or source.suffix == ".crfsuite"
    if is_model and (head is not None or code is not None or force):
        options = "--head, --code and --force are for a config"
        raise ValueError(f"{source} is a model of CRFsuite: {options}")
    if is_model:
        return _migrate_model(source, output, check_language(lang or "en"))
    if lang is not None:
        raise ValueError(f"{source} is no model of CRFsuite: its config has the language")
    check_output_file(output, ".cfg", source, keep=not force)
    return _migrate_config(source, output, head or "BCRF", code)


def _migrate_config(config: Path, output: Path, head: str, code: Path | None) -> str:
    from spacy import util

    from spacy_bcrf.analysis.migrate import migrate_config

    import_code(code)
    with naming(config):
        loaded = util.load_config(config, interpolate=False)
        migrated, notes = migrate_config(loaded, f"spacy-bcrf.{head}.v1")
        # References to removed settings and unknown functions show here.
        migrated.interpolate()
        util.load_model_from_config(migrated, auto_fill=True)
    with replacing(output) as part:
        migrated.to_disk(part, interpolate=False)
    print_notes(notes)
    typer.echo(f"written to {output}")
    return spacy_command("train", output, output="out", code=code)


def _migrate_model(model: Path, output: Path, lang: str) -> str:
    from spacy_bcrf.analysis.migrate import import_crfsuite

    from .labeler import store

    check_new_folder(output)
    nlp = import_crfsuite(model, lang)
    store(nlp, output)
    typer.echo(f"{output}: a bcrf_tagger with {len(nlp.pipe_labels['bcrf_tagger'])} labels")
    typer.echo(
        "Note: token._.crfsuite has the names of features. Values other than 1 have no "
        "counterpart in a pipeline. For values: "
        f"bcrf.sklearn.CRF(model_filename={str(model)!r})"
    )
    return spacy_command("bcrf", "report", output, "TEST.spacy", "--output", "report.html")
