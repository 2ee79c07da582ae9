"""`python -m spacy bcrf curve`"""

from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.cli._util import Arg, Opt

from spacy_bcrf.readers.doc_files import check_corpus, read_own_docs

from . import paths
from .errors import spacy_command
from .options import Lang, PipeName, Plot


def curve_cli(
    train: Annotated[Path, Arg(help="Training documents, .spacy")],
    dev: Annotated[Path, Arg(help="Annotated documents outside of the training data, .spacy")],
    config: Annotated[Path | None, Arg(help="Training config (default: a sparse chain)")] = None,
    output: Annotated[Path | None, Opt("--output", "-o", help="JSON file to write")] = None,
    plot: Plot = None,
    pipe: PipeName = None,
    lang: Lang = "xx",
) -> str:
    """
    Say whether more training documents would help: train on 1/16 to all of the documents, and print
    F on dev by their number, each with a 95% interval. A fitted curve gives the F of twice and four
    times as many documents from the same source.
    """
    from spacy_bcrf.promises.seen import note_shared
    from spacy_bcrf.training.curve import curve

    for corpus in (train, dev):
        check_corpus(corpus)
    paths.check_output_file(output, ".json", train, dev, config)
    paths.check_plot(plot, train, dev, config)
    gold, held_out = ([doc for doc in read_own_docs(path) if len(doc)] for path in (train, dev))
    paths.print_notes(note_shared(held_out, gold, str(dev), str(train)))
    names: Any = {"corpus": str(train), "dev_corpus": str(dev)}
    found = curve(gold, held_out, config, pipe, lang=lang, **names)
    paths.print_notes(found.notes)
    typer.echo("\n".join(found.lines()))
    typer.echo(found.summary)
    if output is not None:
        paths.write_json(output, found.to_json())
    paths.draw(found, plot)
    if found.is_flat:
        step = spacy_command("bcrf", "audit", train, output="audit.jsonl", lang=lang)
        return f"look for label errors: {step}"
    return "annotate more: python -m spacy bcrf rank MODEL TEXTS --output texts.jsonl"
