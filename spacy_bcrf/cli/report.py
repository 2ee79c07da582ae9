"""`python -m spacy bcrf report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from spacy_bcrf.io.atomic import write_text

from .errors import exit_on
from .options import GpuId, PipeName
from .paths import check_corpus, check_output_file

SUFFIXES = (".html", ".json")


def report_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    test: Annotated[Path, Arg(help="Annotated documents outside of the training data, .spacy")],
    output: Annotated[
        list[Path],
        Opt("--output", "-o", help="File to write, .html or .json. Repeatable"),
    ],
    against: Annotated[
        str | None, Opt("--against", help="Another pipeline that predicts the same annotation")
    ] = None,
    pipe: PipeName = None,
    resamples: Annotated[
        int, Opt("--resamples", help="Number of bootstrap samples and of random swaps", min=100)
    ] = 2000,
    seed: Annotated[int, Opt("--seed", help="Seed of samples and swaps", min=0)] = 0,
    gpu_id: GpuId = -1,
) -> None:
    """
    Judge a component on gold documents: precision, recall and F by label with bootstrap intervals,
    kinds of errors, calibration, confusions with examples, the most and the least certain errors.
    With --against, the differences from another pipeline and their significance. Writes one HTML
    page without scripts, or JSON.
    """
    from spacy_bcrf.analysis.loading import load_pipeline
    from spacy_bcrf.analysis.reporting import report

    from .labeler import load_labeler, read_gold
    from .pages.report import report_page

    with exit_on(ValueError, ImportError, OSError):
        for path in output:
            if path.suffix not in SUFFIXES:
                raise ValueError(f"{path}: expected a file with the suffix .html or .json")
            check_output_file(path, test)
        check_corpus(test)
        setup_gpu(gpu_id, silent=True)
        nlp, name, _ = load_labeler(model, pipe)
        other = None if against is None else load_pipeline(against)
        names = model, str(against), str(test)
        gold = read_gold(nlp, test)
        found = report(nlp, gold, name, against=other, resamples=resamples, seed=seed, names=names)
        for path in output:
            is_page = path.suffix == ".html"
            write_text(path, report_page(found.values) if is_page else found.to_text())
    for note in found.values["notes"]:
        typer.echo(f"Note: {note}", err=True)
    for path in output:
        typer.echo(f"{path}: {found!r}")
