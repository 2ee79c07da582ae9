"""`python -m spacy bcrf verify`"""

import json
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from bcrf.chain.potentials import counted
from bcrf.io.atomic import replacing

from .options import GpuId, Model, PipeName, read_pairs
from .paths import check_output_file, print_notes


def verify_cli(
    spans: Annotated[Path, Arg(help="JSON lines of texts with spans, as for `aggregate`")],
    model: Model,
    output: Annotated[Path, Opt("--output", "-o", help="File of the verified spans, .jsonl")],
    gold: Annotated[
        Path | None,
        Opt(help="Known entities of some of the texts, .spacy, which calibrate the others"),
    ] = None,
    labels: Annotated[str | None, Opt(help="Labels of SPANS as ours: CONDITION=X,DATE=O")] = None,
    precision: Annotated[
        float | None, Opt(help="Precision of the kept spans to promise, with --gold")
    ] = None,
    confidence: Annotated[float, Opt(help="Probability that the promise is kept")] = 0.95,
    pipe: PipeName = None,
    gpu_id: GpuId = -1,
) -> None:
    """
    Say how probable the spans of a language model are, from the posterior of a trained pipeline.
    OUTPUT has a line for each span, with its probability, and whether the promise of --precision
    keeps it. Texts of --gold are not in it.
    """
    from spacy_bcrf.corpora.formats.votes import read_votes
    from spacy_bcrf.loading import read_gold_docs
    from spacy_bcrf.pipeline.settings import check_promise
    from spacy_bcrf.promises.verify import verify

    from .labeler import load_labeler

    check_output_file(output, ".jsonl", spans, gold)
    ours = dict(read_pairs("--labels", labels.split(",") if labels else (), "CONDITION=X"))
    nlp, name, _ = load_labeler(
        str(model), pipe, gpu_id, check=lambda key, found: check_promise(key, found.codec, "recall")
    )
    voted = list(read_votes(spans, nlp))
    if not any(votes.votes for one in voted for votes in one.by_source.values()):
        raise ValueError(f"{spans}: there are no spans to verify")
    found = verify(
        nlp,
        voted,
        name,
        gold=[] if gold is None else read_gold_docs(nlp, gold),
        labels=ours,
        precision=precision,
        confidence=confidence,
    )
    with replacing(output) as part, part.open("w", encoding="utf8") as file:
        file.writelines(json.dumps(one._asdict()) + "\n" for one in found.spans)
    print_notes(found.notes)
    typer.echo("\n".join(found.lines()))
    if found.promise is not None:
        typer.echo(
            f"precision {precision:g} promised: posteriors from {found.promise.threshold:.4g} on; "
            f"{found.promise.measured:.4f} measured on {found.promise.n_docs:,} gold documents"
        )
    typer.echo(f"{output}: {counted(len(found.spans), 'span')}")
