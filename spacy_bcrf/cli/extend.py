"""`python -m spacy bcrf extend`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from spacy_bcrf.io.atomic import check_new_folder, replacing_folder

from .errors import exit_on
from .options import GpuId, PipeName
from .paths import check_corpus


def extend_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    corpus: Annotated[
        Path,
        Arg(help="Documents in which only the new labels are annotated, .spacy", metavar="NEW"),
    ],
    labels: Annotated[
        list[str], Opt("--labels", help="New label. Several: --labels A,B or --labels A --labels B")
    ],
    output: Annotated[Path, Opt("--output", "-o", help="New folder to save the pipeline to")],
    pipe: PipeName = None,
    passes: Annotated[int, Opt(help="Passes over the documents", min=1)] = 5,
    learn_rate: Annotated[
        float | None,
        Opt(
            "--learn-rate",
            help="Of the optimizer (default: the config's), or of AdaGrad in a sparse linear chain "
            "(default: 0.3)",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        Opt(
            "--batch-size",
            help="Documents in a step (default: 1 for a sparse linear chain, else 8)",
            min=1,
        ),
    ] = None,
    dropout: Annotated[float, Opt("--dropout", help="Of a network", min=0, max=0.99)] = 0.1,
    seed: Annotated[int, Opt("--seed", help="Random seed")] = 0,
    gpu_id: GpuId = -1,
) -> None:
    """
    Add labels to a component without forgetting the old ones. The new documents teach the new
    labels, and the marginals of the old component teach the old labels on the same documents.
    Supports bcrf_ner and bcrf_tagger.
    """
    from spacy.util import fix_random_seed

    from spacy_bcrf.analysis.extension import extend
    from spacy_bcrf.annotation.extensions import set_extensions

    from .labeler import load_labeler, read_gold

    with exit_on(ValueError, OSError):
        check_new_folder(output)
        check_corpus(corpus)
        names = [name.strip() for option in labels for name in option.split(",")]
        set_extensions()
        setup_gpu(gpu_id, silent=True)
        fix_random_seed(seed)
        nlp, name, _ = load_labeler(model, pipe)
        gold = read_gold(nlp, corpus)
        result = extend(
            nlp,
            gold,
            names,
            name,
            passes=passes,
            batch_size=batch_size,
            drop=dropout,
            learn_rate=learn_rate,
            seed=seed,
        )
        with replacing_folder(output) as part:
            nlp.to_disk(part)
    n_problems = len(result.problems)
    typer.echo(f"{name}: learned {', '.join(names)} from {len(gold) - n_problems:,} documents")
    if n_problems:
        first = min(result.problems)
        typer.echo(
            f"left out {n_problems:,} of {len(gold):,} documents. The first is document "
            f"{first}, {gold[first].text[:40]!r}: {result.problems[first]}"
        )
    typer.echo(f"mean loss a document: {result.losses[0]:.3f} to {result.losses[-1]:.3f}")
    if result.had_control:
        typer.echo("the promise of `control` is removed: run `control` again")
    typer.echo(f"stored in {output}")
