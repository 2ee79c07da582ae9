"""`python -m spacy bcrf rank`"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import typer
from spacy.cli._util import Arg, Opt

from bcrf.io.atomic import replacing

from .errors import spacy_command
from .options import GpuId, Model, PipeName
from .paths import check_output_file

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
    max_alternatives: Annotated[int, Opt(help="Most alternatives of a prediction", min=0)] = 5,
    pipe: PipeName = None,
    skip_bad: Annotated[bool, Opt("--skip-bad", help="Skip and count bad texts")] = False,
    gpu_id: GpuId = -1,
) -> str | None:
    """
    Order documents for annotation, the most uncertain first. Writes each document with its
    uncertainty, predictions, scores and alternatives. Keeps only two numbers for each document in
    memory; --max-similarity keeps the pairs of words of the chosen ones.
    """
    from spacy_bcrf.analysis.loading import annotate_before
    from spacy_bcrf.analysis.predictions import predict_spans
    from spacy_bcrf.analysis.rank import rank

    from . import annotation_tasks as tasks
    from .labeler import load_labeler
    from .review.page import check_labeler
    from .text_docs import Texts

    check_output_file(output, ".jsonl .json", texts)
    nlp, name, labeler = load_labeler(model, pipe, gpu_id)
    if format != "jsonl":
        check_labeler(labeler)
    given = Texts(texts, nlp, skip_bad)
    ranking = rank(
        nlp, given, name, by=by, per=per, n=n, diverse=diverse, max_similarity=max_similarity
    )
    make = {
        "jsonl": tasks.make_record,
        "prodigy": tasks.make_prodigy_task,
        "label-studio": tasks.make_label_studio_task,
    }[format]
    docs = annotate_before(nlp, name, (given[one.number] for one in ranking.chosen))
    predicted = predict_spans(labeler, docs, max_alternatives)
    records = (
        make(given.fields(one.number), round(one.uncertainty, 6), *found, name)
        for one, found in zip(ranking.chosen, predicted, strict=True)
    )
    if output is None:
        write(records, format, typer.get_text_stream("stdout", errors=_HALVES))
    else:
        with replacing(output) as part, part.open("w", encoding="utf8", errors=_HALVES) as file:
            write(records, format, file)
    similar = f"; left out {ranking.n_similar:,} near duplicates" if ranking.n_similar else ""
    n_bad, first = len(given.problems), "".join(given.problems[:1])
    skipped = f"; skipped {n_bad:,} bad texts, the first: {first}" if n_bad else ""
    typer.echo(
        f"{ranking.n_docs:,} documents ranked by {by} per {per}, "
        f"{len(ranking.chosen):,} written{similar}{skipped}",
        err=True,
    )
    if format == "label-studio":
        typer.echo(f"labeling config: {tasks.labeling_config(labeler.labels)}", err=True)
    if output is None or format != "jsonl" or output.suffix.lower() != ".jsonl":
        return None
    return spacy_command("bcrf", "review", model, output, output="page.html", pipe=pipe)


def write(records: Iterable[dict[str, Any]], format: Format, output: IO[str]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    if format != "label-studio":
        output.writelines(f"{line}\n" for line in lines)
        return
    before = "[\n"
    for line in lines:
        output.write(before + line)
        before = ",\n"
    output.write("\n]\n" if before == ",\n" else "[]\n")
