"""`python -m spacy bcrf review`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from bcrf.io.atomic import write_text

from .errors import spacy_command
from .options import GpuId, Model, PipeName, PromiseName
from .paths import check_output_file, print_note


def review_cli(
    model: Model,
    texts: Annotated[Path, Arg(help="Texts, as for `rank`. Without --gold, annotation is ignored")],
    output: Annotated[Path, Opt("--output", "-o", help="The HTML page to write")],
    pipe: PipeName = None,
    gold: Annotated[bool, Opt("--gold", help="Review annotation, not predictions")] = False,
    suspects: Annotated[Path | None, Opt(help="What `audit` wrote: gold or suggestion")] = None,
    redaction: Annotated[
        bool, Opt("--redaction", help="Review what `redact` replaces, first what it may leave")
    ] = False,
    promise: PromiseName = None,
    gpu_id: GpuId = -1,
) -> str:
    """
    Write a page to review predicted entities in a browser, without server or network, or to correct
    the annotation of a corpus. Its Save button writes JSON lines that `convert` reads: accepted and
    rejected entities as partial annotation, and documents marked as complete.
    """
    from spacy_bcrf.serve.review import review
    from spacy_bcrf.training.first_config import FACTORIES

    from .labeler import load_labeler

    if redaction and (gold or suspects is not None):
        raise ValueError("--redaction is about predictions, --gold and --suspects about annotation")
    if promise is not None and not redaction:
        raise ValueError("--promise needs --redaction")
    check_output_file(output, ".html", texts, suspects)
    nlp, name, _ = load_labeler(model, pipe, gpu_id)
    page, counts = review(
        nlp,
        texts,
        name,
        gold=gold,
        suspects=suspects,
        redaction=redaction,
        promise=promise,
        report=print_note,
    )
    write_text(output, page)
    typer.echo(f"{output}: {counts}")
    paths = nlp.config["paths"]
    parts = {
        part: path if (path := paths.get(part)) and Path(path).exists() else f"{part.upper()}.spacy"
        for part in ("train", "dev")
    }
    if Path(parts["dev"]).exists() and texts.samefile(parts["dev"]):
        parts["dev"] = "DEV.spacy"  # the page's documents train the next model
    joined = "--train", parts["train"], "--train", "SAVED.jsonl", "--dev", parts["dev"]
    init = "init", "--output", "next/config.cfg", *joined, "--lang", nlp.lang
    used = nlp.pipe_factories.values()
    pipes = ",".join(short for short, factory in FACTORIES.items() if factory in used)
    return f"open {output} in a browser; then {spacy_command('bcrf', *init, pipe=pipes)}"
