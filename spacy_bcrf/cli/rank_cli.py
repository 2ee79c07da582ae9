"""`python -m spacy bcrf rank`"""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from spacy.cli._util import Arg, Opt

from bcrf.chain.potentials import counted
from bcrf.io.atomic import replacing

from .errors import spacy_command
from .options import GpuId, Model, PipeName
from .paths import check_output_file, print_note

_HALVES = "backslashreplace"
"""Halves of surrogate pairs in meta data are written as JSON escapes them."""


Measure = Literal["entropy", "confidence", "margin"]
Unit = Literal["token", "entity", "document"]
Format = Literal["jsonl", "prodigy", "label-studio"]


def rank_cli(
    model: Model,
    texts: Annotated[Path, Arg(help="Texts: a file as for `annotate`, or a folder of such files")],
    output: Annotated[Path | None, Opt("--output", "-o", help="File (default: stdout)")] = None,
    by: Annotated[
        Measure,
        Opt("--by", "-b", help="entropy; 1 - p of the best labeling; 1 - margin of the best two"),
    ] = "entropy",
    per: Annotated[
        Unit, Opt(help="token: by length. entity: mean of possible ones. document: long ones first")
    ] = "token",
    n: Annotated[int, Opt("--n", "-n", help="Number of documents to write (0 for all)", min=0)] = 0,
    diverse: Annotated[bool, Opt("--diverse", help="Choose n of the 4 n most uncertain")] = False,
    max_similarity: Annotated[
        float | None, Opt(help="Most word pairs in common with a chosen one, as 0.8", min=0, max=1)
    ] = None,
    format: Annotated[Format, Opt("--format", "-f", help="Format of the tasks")] = "jsonl",
    pipe: PipeName = None,
    skip_bad: Annotated[bool, Opt("--skip-bad", help="Skip and count bad texts")] = False,
    gpu_id: GpuId = -1,
) -> str | None:
    """
    Order documents for annotation, the most uncertain first. Writes each document with its
    uncertainty, predictions, scores and alternatives. Keeps only two numbers for each document in
    memory; --max-similarity keeps the pairs of words of the chosen ones.
    """
    from spacy_bcrf.corpora.formats.label_studio import labeling_config
    from spacy_bcrf.corpora.formats.table import get_format
    from spacy_bcrf.corpora.text_docs import Texts
    from spacy_bcrf.corpora.writer import Task
    from spacy_bcrf.judging.prediction_records import MAX_ALTERNATIVES, predict_spans
    from spacy_bcrf.judging.rank import rank
    from spacy_bcrf.loading import annotate_before
    from spacy_bcrf.serve.review import check_labeler

    from .labeler import load_labeler

    check_output_file(output, ".jsonl .json", texts)
    nlp, name, labeler = load_labeler(model, pipe, gpu_id)
    if format != "jsonl":
        check_labeler(labeler)
    given = Texts(texts, nlp, skip_bad, print_note)
    ranking = rank(
        nlp, given, name, by=by, per=per, n=n, diverse=diverse, max_similarity=max_similarity
    )
    docs = annotate_before(nlp, name, (given[one.number] for one in ranking.chosen))
    predicted = predict_spans(labeler, docs, MAX_ALTERNATIVES)
    tasks = (
        Task(given.fields(one.number), round(one.uncertainty, 6), *found)
        for one, found in zip(ranking.chosen, predicted, strict=True)
    )
    write: Any = get_format(format).write_tasks
    if output is None:
        write(tasks, typer.get_text_stream("stdout", errors=_HALVES), name)
    else:
        with replacing(output) as part, part.open("w", encoding="utf8", errors=_HALVES) as file:
            write(tasks, file, name)
    similar = (
        f"; left out {counted(ranking.n_similar, 'near duplicate')}" if ranking.n_similar else ""
    )
    n_bad, first = len(given.problems), "".join(given.problems[:1])
    skipped = f"; skipped {counted(n_bad, 'bad text')}, the first: {first}" if n_bad else ""
    typer.echo(
        f"{counted(ranking.n_docs, 'document')} ranked by {by} per {per}, "
        f"{len(ranking.chosen):,} written{similar}{skipped}",
        err=True,
    )
    if format == "label-studio":
        typer.echo(f"labeling config: {labeling_config(labeler.labels)}", err=True)
    if output is None or format != "jsonl" or output.suffix.lower() != ".jsonl":
        return None
    return spacy_command("bcrf", "review", model, output, output="page.html", pipe=pipe)
