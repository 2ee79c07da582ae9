"""`python -m spacy bcrf import`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from bcrf.io.atomic import check_new_folder

from .options import NewFolder


def import_cli(
    model: Annotated[
        Path,
        Arg(
            help="Model file of CRFsuite, python-crfsuite or sklearn-crfsuite",
            exists=True,
            dir_okay=False,
        ),
    ],
    output: NewFolder,
    lang: Annotated[str, Opt("--lang", "-l", help="Language of the tokenizer")] = "en",
) -> str:
    """
    Make a pipeline with a bcrf_tagger from a trained CRFsuite model: equal labels and marginals
    for tokens with the same features.
    """
    from spacy_bcrf.analysis.crfsuite_import import import_crfsuite

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
    return f"python -m spacy bcrf report {output} TEST.spacy --output report.html"
