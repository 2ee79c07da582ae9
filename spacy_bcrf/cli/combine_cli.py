"""`python -m spacy bcrf combine`"""

import re
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from bcrf.io.atomic import check_new_folder
from spacy_bcrf.pipeline.config_errors import naming
from spacy_bcrf.readers.doc_files import check_corpus

from .errors import spacy_command
from .options import NewFolder


def combine_cli(
    models: Annotated[list[str], Arg(help="Pipelines: folders or packages", metavar="A B ..")],
    dev: Annotated[Path, Opt(help="Annotated documents outside of the training data, .spacy")],
    output: NewFolder,
    pipe: Annotated[
        str | None, Opt("--pipe", "-p", help="Name of the component (default: the only common one)")
    ] = None,
) -> str:
    """
    Combine a component of several pipelines: save the first pipeline, in which the component sums
    the potentials of all. The weights of the sum maximize the likelihood of the dev documents.
    Prints the weights, and the log-likelihood per token of each part and of the sum.
    """
    from spacy_bcrf.loading import load_pipeline, read_gold_docs
    from spacy_bcrf.training.combine import combine

    from .labeler import store

    if len(models) < 2:
        raise ValueError(f"expected at least two pipelines to combine, got {', '.join(models)}")
    check_new_folder(output)
    check_corpus(dev)
    pipelines = dict(zip(name_parts(models), map(load_pipeline, models), strict=True))
    first = next(iter(pipelines.values()))
    with naming(dev):
        found = combine(pipelines, read_gold_docs(first, dev), pipe)
    typer.echo(f"{found.name}: {found.n_tokens:,} tokens of dev")
    typer.echo(found)
    store(found.nlp, output)
    return spacy_command("bcrf", "calibrate", output, dev, output="calibrated", pipe=pipe)


def name_parts(models: list[str]) -> list[str]:
    """Return a name for each pipeline: the last folder that tells them apart, or a number."""
    paths = [Path(model).parts for model in models]
    for i in range(1, max(map(len, paths)) + 1):
        names = [re.sub(r"[^\w-]", "_", path[-min(i, len(path))]) for path in paths]
        if len(set(names)) == len(names) and all(name.strip("_") for name in names):
            return names
    return [f"part{i + 1}" for i in range(len(models))]
