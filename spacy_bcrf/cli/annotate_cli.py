"""`python -m spacy bcrf annotate`"""

from typing import Annotated, Literal

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from .options import GpuId, Model, PipeNames
from .paths import print_note, print_notes

FAILED_DOCUMENTS = 3
"""Exit code of a finished run with failed documents."""
UNREAD_INPUT = 4
"""Exit code of a finished run that could not read all of its input."""


Format = Literal["jsonl", "parquet", "spacy"]


def annotate_cli(
    model: Model,
    inputs: Annotated[
        list[str],
        Arg(
            help="Files, folders, globs and URLs (s3://bucket/x): .txt, .jsonl, .csv, .tsv, "
            ".parquet and .spacy; text also compressed by .gz, .bz2 or .xz"
        ),
    ],
    output: Annotated[str, Opt("--output", "-o", help="Folder or URL of the run")],
    pipe: PipeNames = None,
    format: Annotated[Format, Opt("--format", "-f", help="Format of the shards")] = "jsonl",
    shard: Annotated[int, Opt(help="Documents in a shard", min=1)] = 1000,
    text: Annotated[bool, Opt("--text/--no-text", help="Write the text of each document")] = True,
    alternatives: Annotated[int, Opt(help="Labelings to write of each document", min=0)] = 0,
    dropped: Annotated[bool, Opt("--dropped", help="Write dropped predictions too")] = False,
    text_column: Annotated[str, Opt(help="Column or key of the text")] = "text",
    id_column: Annotated[str, Opt(help="Column or key of the id (none: file and line)")] = "id",
    whole_files: Annotated[bool, Opt("--whole-files", help="A .txt file is one document")] = False,
    max_length: Annotated[int | None, Opt(help="Most characters (default: model's)", min=1)] = None,
    timeout: Annotated[float, Opt(help="Seconds until a document fails (0: never)", min=0)] = 60.0,
    n_process: Annotated[
        int | None,
        Opt("--n-process", "-n", help="Processes (default: 1), or actors (Ray's CPUs)", min=1),
    ] = None,
    redo: Annotated[bool, Opt("--redo", help="Annotate damaged shards again")] = False,
    ray: Annotated[
        str | None, Opt(help="Address of a Ray cluster, or local, in place of processes")
    ] = None,
    log_json: Annotated[bool, Opt("--log-json", help="Progress as JSON lines on stdout")] = False,
    gpu_id: GpuId = -1,
) -> str:
    """
    Annotate any number of documents in shards.
    The same command resumes where it stopped, and writes each document once.
    OUTPUT gets shards/, manifest.json, progress.jsonl, and errors.jsonl with failed documents.
    Exit code 0: all documents are written. 1: the run stopped. 3: some documents failed.
    4: the rest of a file could not be read.
    """
    from spacy_bcrf.bulk.annotate import annotate
    from spacy_bcrf.corpora.texts import TextColumns

    if gpu_id >= 0 and (ray is not None or (n_process or 1) > 1):
        raise ValueError("--gpu-id is only for one process")
    if text_column == id_column:
        raise ValueError(f"--text-column and --id-column are both {text_column!r}")
    setup_gpu(gpu_id, silent=True)
    counts = annotate(
        model,
        inputs,
        output,
        pipes=pipe or (),
        format=format,
        columns=TextColumns(text_column, id_column, whole_files),
        shard_size=shard,
        n_processes=n_process,
        ray=ray,
        redo=redo,
        as_json=log_json,
        report=print_note,
        with_text=text,
        n_alternatives=alternatives,
        with_dropped=dropped,
        max_length=max_length,
        timeout=timeout,
    )
    print_notes(["the inputs have no document, nothing was read"] * (not counts.read))
    if counts.failed:
        raise typer.Exit(UNREAD_INPUT if counts.unread else FAILED_DOCUMENTS)
    return f"read the files in {output}/shards, which its manifest.json lists" * bool(counts.read)
