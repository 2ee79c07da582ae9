"""`python -m spacy bcrf review`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from bcrf.io.atomic import replacing

from .errors import spacy_command
from .options import GpuId, Model, PipeName
from .paths import check_output_file


def review_cli(
    model: Model,
    texts: Annotated[Path, Arg(help="Texts, as for `rank`. Without --gold, annotation is ignored")],
    output: Annotated[Path, Opt("--output", "-o", help="The HTML page to write")],
    pipe: PipeName = None,
    max_alternatives: Annotated[int, Opt(help="Most alternatives of an entity", min=0)] = 5,
    gold: Annotated[bool, Opt("--gold", help="Review annotation, not predictions")] = False,
    suspects: Annotated[Path | None, Opt(help="What `audit` wrote: gold or suggestion")] = None,
    gpu_id: GpuId = -1,
) -> str:
    """
    Write a page to review predicted entities in a browser, without server or network, or to correct
    the annotation of a corpus. Its Save
    button writes JSON lines that `convert` reads: accepted and rejected entities as partial
    annotation, and documents marked as complete.
    """
    from spacy_bcrf.analysis.first_config import FACTORIES
    from spacy_bcrf.analysis.loading import annotate_before
    from spacy_bcrf.analysis.predictions import read_predictions

    from .labeler import load_labeler
    from .review.annotation import keep_suspects, read_annotation
    from .review.page import check_labeler, review_page
    from .text_docs import read_texts

    check_output_file(output, ".html", texts, suspects)
    with replacing(output) as part:
        nlp, name, labeler = load_labeler(model, pipe, gpu_id)
        check_labeler(labeler)
        is_complete: list[bool] = []
        is_gold = gold or suspects is not None
        spans = read_annotation(nlp, labeler, texts, is_complete) if is_gold else None
        docs = tqdm(read_texts(texts, nlp), "predicting", unit="docs", delay=1, disable=None)
        before = annotate_before(nlp, name, docs)
        predictions = read_predictions(labeler, before, max_alternatives, spans)
        if suspects:
            predictions = keep_suspects(predictions, suspects, labeler.labels, is_complete)
        page, counts = review_page(nlp, labeler, predictions, texts, max_alternatives)
        part.write_text(page, encoding="utf8")
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
