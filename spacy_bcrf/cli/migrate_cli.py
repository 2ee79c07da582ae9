"""`python -m spacy bcrf migrate`"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from spacy.cli._util import Arg, Opt, import_code
from spacy.language import Language

from bcrf.io.atomic import check_new_folder, replacing
from spacy_bcrf.corpora.convert import check_language

from .errors import spacy_command
from .options import Code, Force
from .paths import check_output_file, keep_unless, print_notes

Head = Literal["CRF", "BCRF", "MeanField", "Unstructured", "SAPO", "Perceptron", "MIRA"]


def migrate_cli(
    source: Annotated[
        Path, Arg(help="Training config, or a model of CRFsuite", exists=True, dir_okay=False)
    ],
    output: Annotated[Path, Opt("--output", "-o", help="Config to write, or new folder")],
    head: Annotated[Head | None, Opt(help="Head of a config's components (default: BCRF)")] = None,
    code: Code = None,
    lang: Annotated[
        str | None, Opt("--lang", "-l", help="Language of a model's pipeline (default: en)")
    ] = None,
    force: Force = False,
) -> str:
    """
    Replace `ner`, `tagger` and `spancat` in a training config by `bcrf_ner`, `bcrf_tagger` and
    `bcrf_spans`. Names, tok2vec, listeners and all other settings stay.

    From a trained CRFsuite model, make a pipeline with a `bcrf_tagger`: equal labels and marginals
    for tokens with the same features.
    """
    from spacy_bcrf.training.migrate import is_crfsuite_model, migrate

    from .labeler import store

    if is_crfsuite_model(source):
        if head is not None or code is not None or force:
            options = "--head, --code and --force are for a config"
            raise ValueError(f"{source} is a model of CRFsuite: {options}")
        check_language(lang or "en")
        check_new_folder(output)
    else:
        if lang is not None:
            raise ValueError(f"{source} is no model of CRFsuite: its config has the language")
        check_output_file(output, ".cfg", source, existing=keep_unless(force))
    import_code(code)
    found, notes = migrate(source, head=head or "BCRF", lang=lang or "en")
    if isinstance(found, Language):
        store(found, output)
        typer.echo(f"{output}: a bcrf_tagger with {len(found.pipe_labels['bcrf_tagger'])} labels")
        print_notes(notes)
        return spacy_command("bcrf", "report", output, "TEST.spacy", "--output", "report.html")
    with replacing(output) as part:
        found.to_disk(part, interpolate=False)
    print_notes(notes)
    typer.echo(f"written to {output}")
    return spacy_command("train", output, output="out", code=code)
