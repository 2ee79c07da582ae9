"""`python -m spacy bcrf init`"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from spacy.cli._util import Opt

from .errors import spacy_command
from .options import CutSpans, Force, Lang, Tokenizer, read_pairs
from .paths import check_output_file, keep_unless, print_notes, report_above_bars

Encoder = Literal["sparse", "cnn", "hybrid", "transformer"]


def init_cli(
    output: Annotated[Path, Opt("--output", "-o", help="The config to write")],
    train: Annotated[
        list[Path] | None,
        Opt(
            "--train",
            "-t",
            help="Corpus, .spacy or a format of `convert`, or texts for --names. Repeatable: texts "
            "of other formats replace equal ones of .spacy",
            exists=True,
        ),
    ] = None,
    dev: Annotated[Path | None, Opt("--dev", "-d", help="Dev corpus (default: a tenth)")] = None,
    names: Annotated[
        list[str] | None, Opt(help="LABEL=FILE with one name per line. Repeatable")
    ] = None,
    lang: Lang = "xx",
    pipes: Annotated[
        str | None,
        Opt("--pipe", "-p", help="ner,spans,tagger; or segmenter (default: by corpus)"),
    ] = None,
    encoder: Annotated[Encoder, Opt("--encoder", "-e", help="Kind of model")] = "sparse",
    clusters: Annotated[
        str | None,
        Opt(help="File of `clusters`; or brown, to make clusters of the texts beside TRAIN"),
    ] = None,
    transformer: Annotated[str | None, Opt(help="Folder or name of a transformer")] = None,
    scores: Annotated[
        str | None,
        Opt(
            help="A foreign tagger whose scores are features: folder of a token classifier or of a "
            "spaCy pipeline, or spans in .jsonl. Without --train, OUTPUT decodes its scores"
        ),
    ] = None,
    labels: Annotated[str | None, Opt(help="Labels of --scores as ours: GPE=LOC,DATE=O")] = None,
    tokenizer: Tokenizer = "auto",
    align: CutSpans = "strict",
    force: Force = False,
) -> str:
    """
    Look at a corpus and write a training config that fits it: components for its annotation,
    passes and evaluation interval. `init` converts corpora in other formats than .spacy into the
    folder of the config. With --names, it annotates texts by lists of names, which match any case
    if they are in lower case.
    """
    from spacy_bcrf.training.init import init

    ours = dict(read_pairs("--labels", labels.split(",") if labels else (), "GPE=LOC"))
    files = read_pairs("--names", names or (), "PER=people.txt")
    if train:
        check_output_file(output, ".cfg", *train, dev, existing=keep_unless(force))
    made = init(
        output,
        train or (),
        dev,
        names=[(label, Path(file)) for label, file in files],
        lang=lang,
        pipes=[name.strip() for name in pipes.split(",")] if pipes else [],
        encoder=encoder,
        clusters=clusters,
        transformer=transformer,
        scores=scores,
        labels=ours,
        force=force,
        tokenizer=tokenizer,
        align=align,
        report=report_above_bars,
    )
    for reason in made.reasons:
        typer.echo(reason)
    print_notes(made.notes)
    if not train:
        step = "init", "--output", "config.cfg", "--train", "TRAIN", "--scores", scores
        return spacy_command("bcrf", *step, labels=labels, lang=lang)
    return spacy_command("train", output, "--output", output.parent / "out")
