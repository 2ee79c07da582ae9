"""`python -m spacy bcrf combine`"""

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.cli._util import Arg, Opt
from spacy.language import Language

from spacy_bcrf.io.atomic import check_new_folder, replacing_folder

from .errors import exit_on
from .labeler import read_examples
from .paths import check_corpus


def combine_cli(
    models: Annotated[
        list[str], Arg(help="Trained pipelines: folders, or names of packages", metavar="A B ..")
    ],
    dev: Annotated[
        Path, Opt("--dev", help="Annotated documents outside of the training data, .spacy")
    ],
    output: Annotated[Path, Opt("--output", "-o", help="New folder to save the pipeline to")],
    pipe: Annotated[
        str | None,
        Opt("--pipe", "-p", help="Name of the component (default: the only common one)"),
    ] = None,
) -> None:
    """
    Combine a component of several pipelines: save the first pipeline, in which the component sums
    the potentials of all. The weights of the sum maximize the likelihood of the dev documents.
    Prints the weights, and the log-likelihood per token of each part and of the sum.
    """
    from spacy_bcrf.pipeline.combination import Combination, check_same, combine, own_tok2vec
    from spacy_bcrf.pipeline.loading import load_pipeline

    with exit_on(ValueError, OSError):
        if len(models) < 2:
            raise ValueError(f"expected at least two pipelines to combine, got {', '.join(models)}")
        check_new_folder(output)
        check_corpus(dev)
        pipelines = dict(zip(name_parts(models), map(load_pipeline, models), strict=True))
        name = find_common(pipelines, pipe)
        check_same(name, pipelines)
        for nlp in pipelines.values():
            own_tok2vec(nlp, name)
        nlp = next(iter(pipelines.values()))
        pipes: list[Any] = [other.get_pipe(name) for other in pipelines.values()]
        combination = Combination(pipes, read_examples(nlp, name, dev))
        weights = combination.fit()
        rows = [[float(i == k) for i in range(len(weights))] for k in range(len(weights))]
        totals = map(combination.log_likelihood, [*rows, weights])
        values = [total / combination.n_tokens for total in totals]
        with replacing_folder(output) as part:
            combine(name, pipelines, weights).to_disk(part)
        typer.echo(f"{name}: {combination.n_tokens:,} tokens of dev")
        for shown, weight, value in zip(pipelines, weights, values, strict=False):
            typer.echo(f"{shown}: weight {weight:.4f}, log-likelihood per token alone {value:.4f}")
        typer.echo(f"sum: log-likelihood per token {values[-1]:.4f}")
        typer.echo(f"stored in {output}")


def name_parts(models: list[str]) -> list[str]:
    """Return a name for each pipeline: the last folder that tells them apart, or a number."""
    paths = [Path(model).parts for model in models]
    for i in range(1, max(map(len, paths)) + 1):
        names = [re.sub(r"[^\w-]", "_", path[-min(i, len(path))]) for path in paths]
        if len(set(names)) == len(names) and all(name.strip("_") for name in names):
            return names
    return [f"part{i + 1}" for i in range(len(models))]


def find_common(pipelines: dict[str, Language], name: str | None) -> str:
    """Return the name of a component of spacy-bcrf that all pipelines have.

    name: None for the only one. ValueError lists the components if none fits.
    """
    from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

    ours = {
        part: [key for key, pipe in nlp.pipeline if isinstance(pipe, SequenceLabeler)]
        for part, nlp in pipelines.items()
    }
    first, *others = ours.values()
    common = [key for key in first if all(key in keys for keys in others)]
    shown = "; ".join(f"{part} has {', '.join(keys) or 'none'}" for part, keys in ours.items())
    if name is None and len(common) == 1:
        return common[0]
    if name is None and common:
        raise ValueError(
            f"--pipe is missing; expected one of the common components {', '.join(common)}"
        )
    if name not in common:
        wanted = f"component {name!r} of spacy-bcrf" if name else "component of spacy-bcrf"
        raise ValueError(f"the pipelines have no enabled {wanted} in common: {shown}")
    return name
