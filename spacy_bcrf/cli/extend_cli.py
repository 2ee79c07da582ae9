"""`python -m spacy bcrf extend`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from bcrf.chain.potentials import counted
from bcrf.io.atomic import check_new_folder
from spacy_bcrf.readers.doc_files import check_corpus

from .errors import spacy_command
from .options import GpuId, Model, NewFolder, Passes, PipeName


def extend_cli(
    model: Model,
    corpus: Annotated[Path, Arg(help="Documents with only the new labels, .spacy", metavar="NEW")],
    labels: Annotated[list[str], Opt(help="New label, or several: A,B. Repeatable")],
    output: NewFolder,
    pipe: PipeName = None,
    passes: Passes = 5,
    learn_rate: Annotated[
        float | None, Opt(help="Learning rate (default: the config's; 0.3 for a sparse chain)")
    ] = None,
    gpu_id: GpuId = -1,
) -> str:
    """
    Add labels to a component without forgetting the old ones. The new documents teach the new
    labels, and the marginals of the old component teach the old labels on the same documents.
    Supports bcrf_ner, bcrf_spans and bcrf_tagger.
    """
    from spacy.util import fix_random_seed

    from spacy_bcrf.annotation.extensions import set_extensions
    from spacy_bcrf.loading import read_gold_docs
    from spacy_bcrf.training.extend import extend

    from .labeler import load_labeler, store

    check_new_folder(output)
    check_corpus(corpus)
    names = [name.strip() for option in labels for name in option.split(",")]
    set_extensions()
    fix_random_seed(0)
    nlp, name, labeler = load_labeler(model, pipe, gpu_id)
    had_promise = labeler.control is not None
    gold = read_gold_docs(nlp, corpus)
    result = extend(nlp, gold, names, name, passes=passes, learn_rate=learn_rate)
    n_problems = len(result.problems)
    typer.echo(
        f"{name}: learned {', '.join(names)} from {counted(len(gold) - n_problems, 'document')}"
    )
    if n_problems:
        first = min(result.problems)
        typer.echo(
            f"left out {n_problems:,} of {len(gold):,} documents. The first is document "
            f"{first}, {gold[first].text[:40]!r}: {result.problems[first]}"
        )
    typer.echo(f"mean loss a document: {result.losses[0]:.3f} to {result.losses[-1]:.3f}")
    if had_promise:
        typer.echo("the promise of `control` is removed: run `control` again")
    store(nlp, output)
    report = "report", output, "TEST.spacy", "--output", "report.html"
    return spacy_command("bcrf", *report, against=model, pipe=pipe)
